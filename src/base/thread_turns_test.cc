#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>

#include "base/threads.h"

namespace tutti {
namespace {

// The kernel may ignore the preference, so the test checks only that nothing else changes.
TEST(ThreadTurns, PolicyAndNicenessStay) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 7), 0);
    const sched_param none = {};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    for (const auto prefer : {PreferShortTurns, PreferLongTurns, PreferLongTurns}) {
      prefer();
      EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 7);
      EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    }
  }).join();
}

}  // namespace
}  // namespace tutti
