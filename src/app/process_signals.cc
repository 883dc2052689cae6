#include "app/process_signals.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/clock.h"
#include "base/thread_name.h"

namespace tutti::app {
namespace {

// What comes so soon after the first signal is the same wish: `timeout` sends one to the process
// and one to the group that it is in, and whoever wraps a command passes on the Ctrl-C that a
// terminal has given to both, some milliseconds later. Nobody who means a second one is as quick:
// what it would end has not been said yet.
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
      // From when this thread runs, so that what came beside the first one and waited is of it.
      const SteadyClock clock;
      const TimePoint another = clock.Now() + kOneWish;
      while (const int signal = WaitForSignal(over_, nullptr, [] {})) {
        if (clock.Now() >= another) _exit(128 + signal);
      }
    });
  } catch (const std::system_error&) {  // no memory for a thread: then the first has to do
  }
}

SecondSignal::~SecondSignal() {
  over_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

}  // namespace tutti::app
