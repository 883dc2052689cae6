#include "cli/terminal_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace tutti::cli {
namespace {

constexpr std::array<int, 3> kEnding = {SIGTERM, SIGHUP, SIGQUIT};

// A handler has nowhere else to write. All signals that matter here are below 64.
std::atomic<uint64_t> came{0};
std::atomic<int> wake_fd{-1};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

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
  // A pipe that is full wakes as well.
  [[maybe_unused]] const ssize_t written = write(wake_fd.load(), "", 1);
  errno = error;
}

void TerminalSignals::Install(Noted& noted) {
  struct sigaction action {};
  action.sa_handler = &TerminalSignals::Note;
  action.sa_flags = SA_RESTART;
  sigaction(noted.number, &action, &noted.before);
  // SIGCONT continues whatever its action is, and its being ignored is nobody's wish.
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
  while (const int number = TakeEnding()) raise(number);
}

void TerminalSignals::Drain() {
  std::array<char, 64> bytes{};
  while (read(wake_[0], bytes.data(), bytes.size()) > 0) continue;
}

bool TerminalSignals::Take(int number) { return (came.fetch_and(~Bit(number)) & Bit(number)) != 0; }

int TerminalSignals::TakeEnding() {
  for (const int number : kEnding) {
    if (Take(number)) return number;
  }
  return 0;
}

void TerminalSignals::Act(int number) {
  for (Noted& noted : noted_) {
    if (noted.number != number) continue;
    sigaction(number, &noted.before, nullptr);
    raise(number);  // to this thread, so that it has acted when raise() returns
    if (begun_) Install(noted);
  }
}

}  // namespace tutti::cli
