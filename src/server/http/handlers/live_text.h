// The live state as JSON (docs/live.md): engines, models, errors and the metrics that it repeats.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/http/server_context.h"

namespace tutti::http {

// For each engine, when the last step began that a watcher has seen.
using SeenSteps = std::vector<std::pair<std::string, TimePoint>>;

struct LiveText {
  std::string json;
  SeenSteps seen;  // with the steps in `json`
};

// Leaves out the steps that were seen. Takes up to some milliseconds: for a helper thread.
LiveText WriteLiveText(const ServerContext& context, SeenSteps seen);

}  // namespace tutti::http
