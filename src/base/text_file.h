// Reads whole text files that a user names, up to a size limit, and detects Git LFS pointers. Any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// Error: `code` if the file is missing, is not regular, has more than `most` bytes or cannot be
// read; the message contains the path.
Result<std::string> ReadTextFile(const std::string& path, uint64_t most, std::string_view code);

// Hint to append to a message "FILE is no ..." if `text`, the file's beginning, is such a pointer;
// else "".
// Format: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
inline std::string_view GitLfsHint(std::string_view text) {
  return text.starts_with("version https://git-lfs")
             ? ": it is a Git LFS pointer; fetch the file itself (git lfs pull)"
             : "";
}

}  // namespace tutti
