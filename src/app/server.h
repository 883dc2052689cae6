// Server: the process behind `tutti serve`: doors in front of a LocalInference, signals, drain. The
// only place where they are wired together.
#pragma once

#include <string>
#include <vector>

#include "app/model_registry.h"
#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread and every thread it starts later, ignores
// SIGPIPE, and raises the file-descriptor limit to the hard limit. Call before any thread exists.
void PrepareProcess();

// Serves until SIGTERM or SIGINT, drains, and returns. Errors: anything that keeps the server from
// starting; reason invalid_value and unknown_parameter are configuration, the rest happened at run
// time. A second signal ends the process at once with 128 + its number.
Status Serve(const Settings& settings, const ModelRef& model);

}  // namespace tutti::app
