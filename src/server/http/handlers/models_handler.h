// Loading and unloading of models by requests without a prompt (Ollama's API).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::http {

class Connection;

// Loads `model`, which the caller may use, and sets its keep_alive if there is one; calls `then` on
// the connection's thread when it is loaded, unless the handler has ended. A keep_alive of 0
// unloads the model instead, and `then` is called at once. Models of a server without
// api::ModelControl are loaded.
void LoadOrUnload(Connection& connection, const std::string& model,
                  std::optional<Duration> keep_alive, std::function<void(Status)> then);

}  // namespace tutti::http
