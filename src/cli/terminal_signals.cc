#include "cli/terminal_signals.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

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

}  // namespace tutti::cli
