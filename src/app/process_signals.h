// The signals that end a serving process, or a worker: blocked in all of its threads, waited for by
// its main one.
#pragma once

#include <signal.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/log.h"

namespace tutti::app {

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread and all it starts, and ignores SIGPIPE,
// for good. Call before any other thread exists.
void PrepareProcess();

sigset_t EndingSignals();

// Waits for a signal that ends the process, and calls `look` now and then. Returns its number, or 0
// when `stop` was set first. SIGHUP, with which others read their configuration again, does nothing
// here, and `log` (may be null) says so.
template <typename Look>
int WaitForSignal(const std::atomic<bool>& stop, Logger* log, const Look& look) {
  const sigset_t set = EndingSignals();
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (!stop.load(std::memory_order_acquire)) {
    const int signal = sigtimedwait(&set, nullptr, &poll);
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (signal == SIGHUP && log != nullptr) {
      log->Info("signal.ignored",
                {{"signal", "SIGHUP"}, {"why", "the configuration is read at start alone"}});
    }
    look();
  }
  return 0;
}

// The process ends by itself so many seconds after now, with exit status 0 and a line that says so:
// for a shutdown whose threads wait for what never comes. Takes no thread, which may be what is
// lacking. The last call counts.
void EndAtLatestIn(double seconds);
inline constexpr double kLastResortS = 10;  // beyond the time that a shutdown has

// While it lives, a second signal ends the process at once, whatever is being waited for.
class SecondSignal {
 public:
  SecondSignal();
  ~SecondSignal();
  SecondSignal(const SecondSignal&) = delete;
  SecondSignal& operator=(const SecondSignal&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace tutti::app
