// Worker: the process of `tutti worker`: models and their engine, without servers and store. A
// frontend sends it requests through a socket.
#pragma once

#include <vector>

#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "base/status.h"

namespace tutti::app {

// Loads `models` (at least one, with distinct names) and serves them to the frontend at
// WorkersSocket() until SIGTERM or SIGINT. Connects again whenever there is no frontend. Then it
// drains: the frontend sends no new requests, and running ones end. Signals and errors as Serve()
// (server.h); call it in a process without threads.
Status RunWorker(const Settings& settings, const std::vector<ModelRef>& models);

}  // namespace tutti::app
