// Compression with a size limit, against decompression bombs. Pure; messages are complete: one zlib
// stream, or the members of a gzip stream, with nothing after them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

enum class Coding {
  kGzip,
  kDeflate
};  // deflate as HTTP and gRPC have it: a zlib stream (RFC 1950)

// `max_bytes` limits the total inflated size of all members of a gzip stream (RFC 1952, section
// 2.2). Errors: request_too_large beyond it; invalid_value (malformed or incomplete).
Result<std::string> Inflate(Coding coding, std::string_view compressed, size_t max_bytes);

// Compresses with a fast level. Errors: OutOfMemory().
Result<std::string> Deflate(Coding coding, std::string_view plain);

}  // namespace tutti::protocol
