#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/mqtt/bridge/session.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReconnectBackoff, DoublesFromOneSecondToTwoMinutes) {
  ReconnectBackoff backoff({}, 1);
  TimePoint now{};
  for (const int due : {1, 2, 4, 8, 16, 32, 64, 120, 120, 120}) {
    const Duration wait = backoff.Lost(now);
    EXPECT_GE(wait, milliseconds(due * 500)) << due;
    EXPECT_LE(wait, seconds(due)) << due;
    now += wait;
  }
}

TEST(ReconnectBackoff, BeginsAgainAfterAStableMinuteOnly) {
  ReconnectBackoff backoff({}, 2);
  TimePoint now{};
  for (int i = 0; i < 5; ++i) now += backoff.Lost(now);
  backoff.Connected(now);
  EXPECT_GT(backoff.Lost(now + seconds(59)), seconds(10)) << "thrown out before a minute is over";
  backoff.Connected(now);
  EXPECT_LE(backoff.Lost(now + seconds(60)), seconds(1));
  EXPECT_GT(backoff.Lost(now + seconds(90)), milliseconds(999)) << "one connection counts once";
}

TEST(ReconnectBackoff, ClientsOfOneBrokerDoNotComeBackTogether) {
  std::set<Duration> waits;
  for (uint64_t seed = 0; seed < 100; ++seed) waits.insert(ReconnectBackoff({}, seed).Lost({}));
  EXPECT_GT(waits.size(), 95u);
  EXPECT_GT(*waits.rbegin() - *waits.begin(), milliseconds(400));
}

}  // namespace
}  // namespace tutti::mqtt::bridge
