#include "cli/password_prompt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "cli/terminal_signals.h"

namespace tutti::cli {
namespace {

constexpr size_t kMaxPasswordBytes = 1024;

Status Cancelled() { return {StatusCode::kCancelled, "cancelled", "no password was given"}; }

bool SetTerminal(const termios& modes) {
  while (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// The last character, of which a UTF-8 one has several bytes.
void RubOut(std::string* line) {
  while (!line->empty() && (static_cast<unsigned char>(line->back()) & 0xC0) == 0x80)
    line->pop_back();
  if (!line->empty()) line->pop_back();
}

// Keys up to the end of a line, unseen; Ctrl-C and Ctrl-D are keys here.
Result<std::string> ReadKeys(TerminalSignals& signals) {
  constexpr char kCtrlC = 3, kCtrlD = 4, kCtrlU = 21, kDeleteKey = 127;
  std::string line;
  while (true) {
    std::array<pollfd, 2> ready = {{{STDIN_FILENO, POLLIN, 0}, {signals.fd(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return Cancelled();
    signals.Drain();
    if (signals.Take(SIGINT)) return Cancelled();
    if (ready[0].revents == 0) continue;
    char key = 0;
    const ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0 || key == kCtrlC || key == kCtrlD) return Cancelled();
    if (key == '\n' || key == '\r') return line;
    if (key == kDeleteKey || key == '\b') {
      RubOut(&line);
    } else if (key == kCtrlU) {
      line.clear();
    } else if (line.size() <= kMaxPasswordBytes) {  // one more, so that it is found too long
      line += key;
    }
  }
}

Result<std::string> Typed(const char* prompt, const char* otherwise) {
  termios before{};
  const std::unique_ptr<TerminalSignals> signals = TerminalSignals::Create();
  if (signals == nullptr || tcgetattr(STDIN_FILENO, &before) != 0)
    return Status(StatusCode::kFailedPrecondition, "no_terminal",
                  std::string("standard input is no terminal: use ") + otherwise);
  signals->Begin();
  signals->PutBackAtEnd(before);
  termios hidden = before;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  hidden.c_cc[VMIN] = 1;
  hidden.c_cc[VTIME] = 0;
  Result<std::string> line = Cancelled();
  // Changes the terminal before the prompt is shown, because a user who sees the prompt may type.
  if (SetTerminal(hidden)) {
    std::fputs(prompt, stderr);
    line = ReadKeys(*signals);
    std::fputs("\n", stderr);
    SetTerminal(before);
  }
  signals->Leave();
  signals->End();
  return line;
}

Status Bad(std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam("password");
}

}  // namespace

Result<std::string> TypedPassword() {
  ASSIGN_OR_RETURN(std::string password, Typed("Password: ", "--password-stdin"));
  ASSIGN_OR_RETURN(const std::string again, Typed("The same again: ", "--password-stdin"));
  if (password != again) return Bad("the two passwords differ");
  return password;
}

Result<std::string> AskedPassword() { return Typed("Password: ", "--password-file"); }

Result<std::string> PasswordOfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Bad("--password-file " + path + ": " + std::strerror(errno));
  struct stat info {};
  const bool readable = fstat(fd, &info) == 0 && (info.st_mode & (S_IRGRP | S_IRWXO)) == 0;
  Result<std::string> password =
      readable ? PipedPassword(fd, path)
               : Result<std::string>(Bad(path + " can be read by others: chmod 600 it"));
  close(fd);
  return password;
}

Result<std::string> PipedPassword(int fd, const std::string& source) {
  std::string text;
  while (text.size() <= kMaxPasswordBytes + 2) {
    std::array<char, 512> bytes;
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable("io_error", source + ": " + std::strerror(errno));
    if (got == 0) break;
    text.append(bytes.data(), static_cast<size_t>(got));
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Bad(source + " holds no password");
  if (text.size() > kMaxPasswordBytes) return Bad("the password is longer than 1024 bytes");
  if (text.find('\n') != std::string::npos)
    return Bad(source + " holds more than one line: the password is one");
  return text;
}

}  // namespace tutti::cli
