// TextLines: the lines of a descriptor, in groups as they come: a group is what is there, so that
// whoever writes one line and waits gets its answer, while a file or a fast writer fills whole
// groups. Owner and thread: the command that reads. Nobody else reads the descriptor meanwhile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cli {

class TextLines {
 public:
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;
  static constexpr size_t kGroupBytes = size_t{4} << 20;  // the line that meets it ends a group

  explicit TextLines(int fd) : fd_(fd) {}

  // Waits for a line, and gives it with those that are there or come within a moment, `most` at
  // most; without their ends (\n or \r\n). None: the input has ended. Errors: io_error;
  // invalid_value for a line that is longer than kMaxLineBytes, once those before it were given.
  Result<std::vector<std::string>> Next(size_t most);

 private:
  enum class Found { kLine, kNone, kTooLong };
  Found TakeLine(std::string* line);  // from what was read
  bool MoreComes(int wait_ms) const;
  Status Read();

  const int fd_;
  std::string input_;  // read and not given yet
  size_t begin_ = 0;   // of the first line in it
  size_t looked_ = 0;  // bytes behind which no line end was looked for
  bool ended_ = false;
};

}  // namespace tutti::cli
