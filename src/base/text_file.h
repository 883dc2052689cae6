// Whole files that a user names, for a text or a table: read with a bound, and only where there is
// an end to be reached. No FIFO, device or folder is opened. Pure but for the file; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// Errors: `code` where nothing is there, or what is no regular file, has more than `most` bytes or
// cannot be read; the message names the path.
Result<std::string> ReadTextFile(const std::string& path, uint64_t most, std::string_view code);

}  // namespace tutti
