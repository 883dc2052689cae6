// Sends one request to the process that holds a store, over `control.sock` in the store's folder:
// one line of JSON in each direction (server/control answers). Blocking; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::client {

// `request` and the answer have no line break; the answer has at most 16 MiB. `patience` limits
// each wait. The server must belong to the same user, because a request may hold a password; root
// may call any server. Errors: unreachable (no server listens, or no answer came).
Result<std::string> AskControl(const std::string& folder, std::string_view request,
                               std::chrono::milliseconds patience);

}  // namespace tutti::client
