// Signals that end a server or worker process: blocked in all threads; the main thread waits for
// them. Supervise(): restarts a process that a signal has killed.
#pragma once

#include <signal.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <thread>

#include "base/log.h"

namespace tutti::app {

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread and all it starts, and ignores SIGPIPE,
// for good. Call before any other thread exists.
void PrepareProcess();

sigset_t EndingSignals();

// Waits for a signal that ends the process and calls `look` periodically. Returns the number of the
// signal, or 0 if `stop` was set first. SIGHUP calls `reload`; if that is null, the signal is
// ignored with a line in `log` (may be null).
template <typename Look>
int WaitForSignal(const std::atomic<bool>& stop, Logger* log, const Look& look,
                  const std::function<void()>& reload = nullptr) {
  const sigset_t set = EndingSignals();
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (!stop.load(std::memory_order_acquire)) {
    const int signal = sigtimedwait(&set, nullptr, &poll);
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (signal == SIGHUP && reload != nullptr) {
      reload();
    } else if (signal == SIGHUP && log != nullptr) {
      log->Info("signal.ignored",
                {{"signal", "SIGHUP"}, {"why", "a worker reads its configuration once"}});
    }
    look();
  }
  return 0;
}

// Sets a watchdog for the shutdown: the process prints a line and exits with status 0 after
// `seconds` seconds, even if its threads hang. Needs no thread, because threads may be what is
// lacking. The last call counts.
void EndAtLatestIn(double seconds);
inline constexpr double kLastResortS = 10;  // beyond the time that a shutdown has

// While this object exists, a second signal ends the process at once.
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

// Calls `work` in a child process and restarts it after a crash; parent and child both return its
// result. A child that is killed by a signal is restarted after 0.2 s, and after up to 30 s if
// children die early. SIGTERM and SIGINT are forwarded and end the restarts; a child that a signal
// has ended then gives 128 + the signal. If the parent is killed, the child gets SIGTERM. Call it
// before any thread exists. If fork() fails, `work` runs in this process.
int Supervise(const std::function<int()>& work);

}  // namespace tutti::app
