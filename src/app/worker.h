// Worker: the process behind `tutti worker`: models and their engine, no doors and no store; a
// front asks it through a socket.
#pragma once

#include <vector>

#include "app/model_registry.h"
#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// Loads `models`, at least one and no two of one name, and serves them to the front at
// WorkersSocket() until SIGTERM or SIGINT; waits for the front where there is none yet, or none any
// more. Then it drains: the front sends it nothing new, what runs ends. Signals and errors as
// Serve() (server.h); call it in a process without threads.
Status RunWorker(const Settings& settings, const std::vector<ModelRef>& models);

}  // namespace tutti::app
