#include "app/process/process_signals.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/clock.h"
#include "base/thread_name.h"

namespace tutti::app {
namespace {

// A second signal within this time counts as a copy of the first: `timeout` signals the process and
// then its process group, and wrapper commands forward a Ctrl-C that the terminal has already sent
// to the whole group. A user who presses Ctrl-C twice takes longer than this.
constexpr Duration kOneWish = std::chrono::milliseconds(250);

}  // namespace

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

void PrepareProcess() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void EndAtLatestIn(double seconds) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    constexpr char kLine[] = "tutti: ended while threads still waited\n";
    (void)!write(STDERR_FILENO, kLine, sizeof kLine - 1);
    _exit(0);
  };
  sigaction(SIGALRM, &action, nullptr);
  alarm(static_cast<unsigned>(seconds) + 1);
}

SecondSignal::SecondSignal() {
  try {
    thread_ = std::thread([this] {
      NameThread("tutti-signal");
      // Measured from the start of this thread, so that copies of the first signal that are still
      // pending count as copies.
      const SteadyClock clock;
      const TimePoint another = clock.Now() + kOneWish;
      while (const int signal = WaitForSignal(over_, nullptr, [] {})) {
        if (clock.Now() >= another) _exit(128 + signal);
      }
    });
  } catch (const std::system_error&) {  // no thread: only the first signal works
  }
}

SecondSignal::~SecondSignal() {
  over_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

}  // namespace tutti::app
