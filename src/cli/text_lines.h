// TextLines: reads a descriptor in groups of lines. A group is what has arrived: a user who types
// one line and waits gets an answer to it, while a file or a fast writer fills whole groups. Owned
// and used by the reading command; nothing else reads the descriptor meanwhile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::cli {

class TextLines {
 public:
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;
  static constexpr size_t kGroupBytes = size_t{4} << 20;  // the line that reaches it ends a group

  explicit TextLines(int fd) : fd_(fd) {}

  // Waits for a line, and returns it with those that have arrived or arrive within a moment, at
  // most `most`, without line ends (\n or \r\n). Empty: the input has ended. Errors: io_error;
  // invalid_value for a line longer than kMaxLineBytes, after the lines before it were returned.
  Result<std::vector<std::string>> Next(size_t most);

 private:
  enum class Found { kLine, kNone, kTooLong };
  Found TakeLine(std::string* line);  // takes a line from `input_`
  bool MoreComes(int wait_ms) const;
  Status Read();

  const int fd_;
  std::string input_;  // bytes read but not returned yet
  size_t begin_ = 0;   // start of the first line in `input_`
  size_t looked_ = 0;  // `input_` was searched for a line end up to here
  bool ended_ = false;
};

}  // namespace tutti::cli
