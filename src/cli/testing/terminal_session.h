// A session at a pseudo-terminal, for tests of what reads keys. One at a time: it forks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli::testing {

struct TerminalSession {
  std::string seen;         // all that was shown
  std::string result;       // what `program` returned
  bool echo_after = false;  // the terminal shows typed keys again
};

// Runs `program` in a process of its own, whose streams are a terminal of 24 x 40. Types each of
// `lines` once `prompt` was shown as many times.
TerminalSession AtATerminal(const std::function<std::string()>& program, std::string_view prompt,
                            const std::vector<std::string>& lines);

}  // namespace tutti::cli::testing
