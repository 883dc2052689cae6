#include "cli/testing/terminal_session.h"

#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/check.h"

namespace tutti::cli::testing {
namespace {

std::string AllOf(int fd) {
  std::string text;
  std::array<char, 256> bytes;
  for (ssize_t count = 0; (count = read(fd, bytes.data(), bytes.size())) > 0;)
    text.append(bytes.data(), static_cast<size_t>(count));
  close(fd);
  return text;
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

}  // namespace

TerminalSession AtATerminal(const std::function<std::string()>& program, std::string_view prompt,
                            const std::vector<std::string>& lines) {
  std::array<int, 2> result;
  CHECK(pipe(result.data()) == 0);
  int terminal = -1;
  const winsize size = {.ws_row = 24, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  CHECK(pid >= 0);
  if (pid == 0) {
    setenv("TERM", "xterm", 1);
    std::string text = program();
    termios modes{};
    tcgetattr(STDIN_FILENO, &modes);
    text.insert(0, (modes.c_lflag & ECHO) != 0 ? "e" : "-");
    (void)!write(result[1], text.data(), text.size());
    _exit(0);
  }
  close(result[1]);
  TerminalSession session;
  std::array<char, 256> bytes;
  size_t typed = 0;
  for (ssize_t count = 0; (count = read(terminal, bytes.data(), bytes.size())) > 0;) {
    session.seen.append(bytes.data(), static_cast<size_t>(count));
    for (; typed < std::min(lines.size(), CountOf(session.seen, prompt)); ++typed)
      CHECK(write(terminal, lines[typed].data(), lines[typed].size()) > 0);
  }
  session.result = AllOf(result[0]);
  close(terminal);
  waitpid(pid, nullptr, 0);
  session.echo_after = session.result.starts_with('e');
  session.result.erase(0, 1);
  return session;
}

}  // namespace tutti::cli::testing
