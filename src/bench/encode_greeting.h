// Sends the first request to a target, before anything is measured: a target that cannot work gives
// one error with advice, and texts longer than the model's limit give a warning.
#pragma once

#include <string>

#include "base/status.h"
#include "bench/encode_load.h"

namespace tutti::bench {

// A line for people if texts of the length of `shape` are truncated, by the target's own token
// count; else "". Errors: of the request, as the target explains them.
Result<std::string> Greet(EncodeTarget& target, const EncodeShape& shape);

}  // namespace tutti::bench
