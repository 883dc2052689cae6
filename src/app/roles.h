// The processes of `tutti serve` and `tutti worker`: models, servers in front of them, signals,
// drain. The only place where these are wired together.
#pragma once

#include <vector>

#include "app/config/settings.h"
#include "app/loading/model_registry.h"
#include "base/status.h"

namespace tutti::app {

// Serves `models` (with distinct names; at least one unless --models names a folder) until SIGTERM
// or SIGINT, drains, and returns; a load in progress is abandoned. A second signal ends the process
// at once with status 128 + its number. Errors: those that prevent the start; invalid_value and
// unknown_parameter are configuration errors, the others run-time errors.
//
// Permanently blocks SIGTERM, SIGINT and SIGHUP in the calling thread and all threads that it
// starts, and ignores SIGPIPE. Call it before any other thread exists.
Status Serve(const Settings& settings, const std::vector<ModelRef>& models);

// The process of `tutti serve --role frontend`: servers, store and services, while `tutti worker`
// processes run the models.
//
// Serves the models of all connected workers until SIGTERM or SIGINT, drains, and returns. Workers
// may connect and disconnect at any time. Otherwise like Serve().
//
// Flags for workers are refused (invalid_value); in a configuration file, which both processes may
// share, they are ignored.
Status ServeFrontend(const Settings& settings);

// Loads `models` (with distinct names) and serves them, and those of --models on demand, to the
// frontend at WorkersSocket() until SIGTERM or SIGINT. Connects again whenever there is no
// frontend. Then it drains: the frontend sends no new requests, and running ones end. It has no
// servers and no store. Signals and errors as Serve(); call it in a process without threads.
Status RunWorker(const Settings& settings, const std::vector<ModelRef>& models);

}  // namespace tutti::app
