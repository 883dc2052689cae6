// ReasoningDisplay: prints the model's reasoning, dimmed, on a terminal. It goes to standard error,
// because standard output has only the answer. Prints nothing if standard error is not a terminal.
//
// Owner and thread: the command.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace tutti::cli {

class ReasoningDisplay {
 public:
  void Show(std::string_view piece) {
    if (piece.empty() || isatty(STDERR_FILENO) != 1) return;
    if (!std::exchange(open_, true)) std::fputs("\x1b[2m", stderr);
    std::fwrite(piece.data(), 1, piece.size(), stderr);
  }
  // Before the answer's text, and at its end.
  void End() {
    if (std::exchange(open_, false)) std::fputs("\x1b[0m\n", stderr);
  }

 private:
  bool open_ = false;
};

}  // namespace tutti::cli
