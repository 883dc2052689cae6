#include "cli/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace tutti::cli {
namespace {

// Global, because a signal handler has no other state. All signals used are below 64.
std::atomic<uint64_t> came{0};
std::atomic<int> wake_fd{-1};
std::atomic<bool> changed{false};  // the terminal's modes differ from `put_back`
termios put_back;
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

bool Ends(int number) { return number == SIGTERM || number == SIGHUP || number == SIGQUIT; }

uint64_t Bit(int number) { return uint64_t{1} << static_cast<unsigned>(number); }

constexpr size_t kMaxPasswordBytes = 1024;

Status NoPasswordGiven() { return {StatusCode::kCancelled, "cancelled", "no password was given"}; }

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
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return NoPasswordGiven();
    signals.Drain();
    if (signals.Take(SIGINT)) return NoPasswordGiven();
    if (ready[0].revents == 0) continue;
    char key = 0;
    const ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0 || key == kCtrlC || key == kCtrlD) return NoPasswordGiven();
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
  Result<std::string> line = NoPasswordGiven();
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

Status Bad(std::string message) { return BadValue("password", std::move(message)); }

}  // namespace

std::unique_ptr<TerminalSignals> TerminalSignals::Create() {
  std::array<int, 2> wake{};
  if (pipe2(wake.data(), O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  return std::unique_ptr<TerminalSignals>(new TerminalSignals(wake));
}

TerminalSignals::TerminalSignals(std::array<int, 2> wake) : wake_(wake) {
  constexpr std::array<int, 7> kNumbers = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                           SIGTSTP, SIGCONT, SIGWINCH};
  for (size_t i = 0; i < kNumbers.size(); ++i) noted_[i].number = kNumbers[i];
  wake_fd.store(wake_[1]);
}

TerminalSignals::~TerminalSignals() {
  End();
  wake_fd.store(-1);
  for (const int fd : wake_) close(fd);
}

void TerminalSignals::Note(int number) {
  const int error = errno;
  came.fetch_or(Bit(number));
  // A failed write to a full pipe is fine: the reader wakes anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd.load(), "", 1);
  errno = error;
}

// The default action ends the program, as soon as this handler returns and frees the signal.
void TerminalSignals::PutBackAndEnd(int number) {
  const int error = errno;
  if (changed.load(std::memory_order_acquire)) tcsetattr(STDIN_FILENO, TCSANOW, &put_back);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(number, &action, nullptr);
  raise(number);
  errno = error;
}

void TerminalSignals::Install(Noted& noted) {
  struct sigaction action {};
  action.sa_handler = Ends(noted.number) ? &PutBackAndEnd : &Note;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, SIGTTOU);  // the modes are put back from the background as well
  sigaction(noted.number, &action, &noted.before);
  // SIGCONT continues the process under any action, so an inherited SIG_IGN is not intended.
  if (noted.before.sa_handler == SIG_IGN && noted.number != SIGCONT)
    sigaction(noted.number, &noted.before, nullptr);
}

void TerminalSignals::Begin() {
  if (begun_) return;
  begun_ = true;
  came.store(0);
  Drain();
  for (Noted& noted : noted_) Install(noted);
}

void TerminalSignals::End() {
  if (!begun_) return;
  begun_ = false;
  for (const Noted& noted : noted_) sigaction(noted.number, &noted.before, nullptr);
}

void TerminalSignals::PutBackAtEnd(const termios& modes) {
  Leave();
  put_back = modes;
  changed.store(true, std::memory_order_release);
}

void TerminalSignals::Leave() { changed.store(false, std::memory_order_release); }

void TerminalSignals::Drain() {
  std::array<char, 64> bytes{};
  while (read(wake_[0], bytes.data(), bytes.size()) > 0) continue;
}

bool TerminalSignals::Take(int number) { return (came.fetch_and(~Bit(number)) & Bit(number)) != 0; }

void TerminalSignals::Act(int number) {
  for (Noted& noted : noted_) {
    if (noted.number != number) continue;
    sigaction(number, &noted.before, nullptr);
    raise(number);  // to this thread, so that it has acted when raise() returns
    if (begun_) Install(noted);
  }
}

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
