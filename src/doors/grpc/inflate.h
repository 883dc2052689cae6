// Inflates a compressed message within a bound: the gRPC library would inflate whatever is sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::rpc {

enum class Coding { kGzip, kDeflate };  // deflate as gRPC has it: a zlib stream

// Errors: request_too_large beyond `most_bytes`, invalid_value for what is not one whole stream.
Result<std::string> Inflate(Coding coding, std::string_view compressed, size_t most_bytes);

}  // namespace tutti::rpc
