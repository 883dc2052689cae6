// Loading and unloading of models by requests without a prompt (Ollama's API).
#pragma once

#include <functional>
#include <optional>

#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"

namespace tutti::http {

class Connection;

// Loads `model`, which the caller may use, the base of an adapter, or the targets of an alias, and
// sets its keep_alive if there is one; calls `then` on the connection's thread when it is loaded,
// unless the handler has ended. A keep_alive of 0 unloads it instead (a base or target only when it
// is idle and not pinned), and `then` is called at once. Models of a server without
// api::ModelControl are loaded.
void LoadOrUnload(Connection& connection, const api::ModelInfo& model,
                  std::optional<Duration> keep_alive, std::function<void(Status)> then);

}  // namespace tutti::http
