#include <gtest/gtest.h>

#include "redis/pool.h"

namespace tutti::redis {
namespace {

using std::chrono::milliseconds;

TEST(Breaker, OpensAfterFailuresInARowAndLetsOneTry) {
  ManualClock clock;
  Breaker breaker(
      {.failures = 3, .first_wait = milliseconds(100), .longest_wait = milliseconds(300)}, &clock);
  breaker.Failed();
  breaker.Failed();
  breaker.Succeeded();
  breaker.Failed();
  breaker.Failed();
  EXPECT_TRUE(breaker.closed());
  EXPECT_FALSE(breaker.MayTry());
  breaker.Failed();
  EXPECT_FALSE(breaker.closed());
  EXPECT_EQ(breaker.opened(), 1u);
  EXPECT_FALSE(breaker.MayTry());
  breaker.Succeeded();  // of one that began before
  EXPECT_FALSE(breaker.closed());
  for (const int wait : {100, 200, 300, 300}) {  // twice as long each time, up to the longest
    clock.Advance(milliseconds(wait - 1));
    EXPECT_FALSE(breaker.MayTry());
    clock.Advance(milliseconds(1));
    EXPECT_TRUE(breaker.MayTry());
    EXPECT_FALSE(breaker.MayTry());  // one at a time
    breaker.Failed();
    breaker.Failed();  // a late failure
  }
  clock.Advance(milliseconds(300));
  EXPECT_TRUE(breaker.MayTry());
  breaker.Succeeded();
  EXPECT_TRUE(breaker.closed());
  EXPECT_EQ(breaker.opened(), 1u);
}

}  // namespace
}  // namespace tutti::redis
