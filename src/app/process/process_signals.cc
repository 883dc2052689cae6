#include "app/process/process_signals.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <system_error>

#include "app/process/memory.h"
#include "base/clock.h"
#include "base/threads.h"

namespace tutti::app {
namespace {

// A second signal within this time counts as a copy of the first: `timeout` signals the process and
// then its process group, and wrapper commands forward a Ctrl-C that the terminal has already sent
// to the whole group. A user who presses Ctrl-C twice takes longer than this.
constexpr Duration kOneWish = std::chrono::milliseconds(250);

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr milliseconds kFirstWait(200), kLongestWait(30'000);
// A worker that ran this long is restarted after the first delay again.
constexpr milliseconds kOldAge(60'000);

sigset_t Watched() { return SetOf({SIGTERM, SIGINT, SIGCHLD}); }

timespec Timespec(milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
}

// Waits until the child has ended; returns its waitpid() status. `*stopped` is set if a stop was
// requested.
int WaitForChild(pid_t child, int* stopped) {
  const sigset_t set = Watched();
  const timespec poll = Timespec(milliseconds(1000));
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    const int signal = sigtimedwait(&set, nullptr, &poll);
    if (signal != SIGTERM && signal != SIGINT) continue;
    *stopped = signal;
    (void)kill(child, signal);
  }
}

// True when the time has passed, false when this process is to end.
bool Pause(milliseconds time, int* stopped) {
  const SteadyTime end = std::chrono::steady_clock::now() + time;
  const sigset_t set = Watched();
  while (std::chrono::steady_clock::now() < end) {
    const timespec left = Timespec(
        std::max(milliseconds(1),
                 std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now())));
    const int signal = sigtimedwait(&set, nullptr, &left);
    if (signal != SIGTERM && signal != SIGINT) continue;
    *stopped = signal;
    return false;
  }
  return true;
}

}  // namespace

sigset_t EndingSignals() { return SetOf({SIGTERM, SIGINT, SIGHUP}); }

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

int Supervise(const std::function<int()>& work) {
  const sigset_t set = Watched();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &set, &before);
  milliseconds wait = kFirstWait;
  const pid_t parent = getpid();
  while (true) {
    std::fflush(nullptr);  // what is buffered is printed once
    const SteadyTime born = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child <= 0) {
      sigprocmask(SIG_SETMASK, &before, nullptr);
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) return 128 + SIGTERM;  // it has died already
        EndBySignalWithoutMemory();                     // a normal exit would not be restarted
      }
      return work();
    }
    int stopped = 0;
    const int status = WaitForChild(child, &stopped);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int signal = WTERMSIG(status);
    if (stopped != 0) return 128 + signal;
    if (std::chrono::steady_clock::now() - born > kOldAge) wait = kFirstWait;
    std::fprintf(stderr, "tutti: the worker was killed by signal %d (%s); another starts in %g s\n",
                 signal, strsignal(signal), static_cast<double>(wait.count()) / 1000);
    if (!Pause(wait, &stopped)) return 128 + stopped;
    wait = std::min(wait * 2, kLongestWait);
  }
}

}  // namespace tutti::app
