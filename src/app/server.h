// Server: the process behind `tutti serve`: doors in front of a LocalInference, signals, drain. The
// only place where they are wired together.
#pragma once

#include <string>
#include <vector>

#include "app/model_registry.h"
#include "app/settings.h"
#include "base/status.h"

namespace tutti::app {

// Serves `models`, at least one and no two of one name, until SIGTERM or SIGINT, drains, and
// returns; a load that is still going on is abandoned.
// Errors: anything that keeps the server from starting; reason invalid_value and unknown_parameter
// are configuration, the rest happened at run time. A second signal ends the process at once with
// 128 + its number.
//
// Makes the process a server's, for good: SIGTERM, SIGINT and SIGHUP are blocked in the calling
// thread and all it starts, and SIGPIPE is ignored. Call before any other thread exists.
Status Serve(const Settings& settings, const std::vector<ModelRef>& models);

}  // namespace tutti::app
