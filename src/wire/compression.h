// Compressed messages of any door, within a bound: libraries would inflate whatever is sent. Pure;
// messages are whole: one stream of zlib, or the members of gzip, after which nothing follows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::wire {

enum class Coding {
  kGzip,
  kDeflate
};  // deflate as HTTP and gRPC have it: a zlib stream (RFC 1950)

// Errors: request_too_large beyond `most_bytes`, invalid_value for what is not whole. `most_bytes`
// counts what all members of a gzip stream (RFC 1952, section 2.2) inflate to.
Result<std::string> Inflate(Coding coding, std::string_view compressed, size_t most_bytes);

// Fast rather than small. An answer that cannot be made for want of memory is OutOfMemory().
Result<std::string> Deflate(Coding coding, std::string_view plain);

}  // namespace tutti::wire
