// Reads whole text files that a user names, up to a size limit. Opens regular files only: no FIFO,
// device or folder. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// Error: `code` if the file is missing, is not regular, has more than `most` bytes or cannot be
// read; the message contains the path.
Result<std::string> ReadTextFile(const std::string& path, uint64_t most, std::string_view code);

}  // namespace tutti
