#include <gtest/gtest.h>

#include <chrono>

#include "cpu_time.h"
#include "model/team.h"

namespace tutti::model {
namespace {

// A waiter that spins or yields for as long as it takes keeps its core busy, so that the system
// never moves there the thread that is waited for.
TEST(SpinWait, ALongWaitLeavesTheCoreIdle) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  const double before = support::ThreadSeconds();
  for (SpinWait wait; std::chrono::steady_clock::now() < end;) wait.Pause();
  EXPECT_LT(support::ThreadSeconds() - before, 0.15);
}

}  // namespace
}  // namespace tutti::model
