// The first request to a target, before anything is measured: what cannot work is said once and
// with what to do about it, and texts that are longer than the model reads are told of.
#pragma once

#include <string>

#include "base/status.h"
#include "bench/encode_load.h"

namespace tutti::bench {

// A line for people where texts as long as `shape` asks for are cut, by the target's own count of
// the tokens it read; else "". Errors: of the request, as the target explains them.
Result<std::string> Greet(EncodeTarget& target, const EncodeShape& shape);

}  // namespace tutti::bench
