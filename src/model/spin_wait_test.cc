#include "model/spin_wait.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>

namespace tutti::model {
namespace {

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// A waiter that spins or yields for as long as it takes keeps its core busy, so that the system
// never moves there the thread that is waited for.
TEST(SpinWait, ALongWaitLeavesTheCoreIdle) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  const double before = ThreadCpuSeconds();
  for (SpinWait wait; std::chrono::steady_clock::now() < end;) wait.Pause();
  EXPECT_LT(ThreadCpuSeconds() - before, 0.15);
}

}  // namespace
}  // namespace tutti::model
