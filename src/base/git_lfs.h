// Detects Git LFS pointers: the small text that is left in place of a large file that was not
// fetched. Pure.
#pragma once

#include <string_view>

namespace tutti {

// Hint to append to a message "FILE is no ..." if `text`, the file's beginning, is such a pointer;
// else "".
// Format: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
inline std::string_view GitLfsHint(std::string_view text) {
  return text.starts_with("version https://git-lfs")
             ? ": it is a Git LFS pointer; fetch the file itself (git lfs pull)"
             : "";
}

}  // namespace tutti
