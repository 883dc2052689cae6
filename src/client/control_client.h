// One request to the process that has a store, over `control.sock` in the store's folder: a line of
// JSON there, a line of JSON back (doors/control answers). Blocking; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::client {

// `request` without a line break; the answer without its own, at most 16 MiB. `patience` bounds
// each wait. Only a process of this user is spoken to, for a request may hold a password; root
// speaks to any. Errors: unreachable (nobody listens, or no answer came).
Result<std::string> AskControl(const std::string& folder, std::string_view request,
                               std::chrono::milliseconds patience);

}  // namespace tutti::client
