#include "app/session_rates.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tutti::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SessionRatesTest : public ::testing::Test {
 protected:
  static MqttProject Project(const std::string& name, int limit, Duration period) {
    MqttProject project;
    project.name = name;
    project.rate = {limit, period};
    return project;
  }
  static sessions::SessionKey Key(const std::string& session,
                                  const std::string& project = "driving",
                                  const std::string& tenant = "home") {
    return {tenant, project, session};
  }
  // Admitted, and accepted if so.
  Status Takes(const sessions::SessionKey& key) {
    const Result<sessions::Admitted> admitted = rates_.Admit(key);
    if (admitted.ok() && *admitted) (*admitted)();
    return admitted.status();
  }
  int Passing(const sessions::SessionKey& key, int tries) {
    int passing = 0;
    for (int i = 0; i < tries; ++i) passing += Takes(key).ok() ? 1 : 0;
    return passing;
  }

  ManualClock clock_;
  SessionRates rates_{{Project("driving", 20, seconds(60)), Project("slow", 1, seconds(10)),
                       Project("free", 0, seconds(0))},
                      "home",
                      &clock_,
                      [] { return int64_t{1'700'000'000}; }};
};

// U30.
TEST_F(SessionRatesTest, The21stWithin60SecondsIsRefusedUntilExactlyTheWindowHasSlid) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Takes(Key("a")).ok()) << i;
    clock_.Advance(seconds(2));
  }
  const Status refused = Takes(Key("a"));
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_EQ(refused.retry_after(), seconds(20));
  EXPECT_EQ(Passing(Key("b"), 21), 20) << "another session has its own";
  clock_.Advance(seconds(20) - Duration(1));
  EXPECT_FALSE(Takes(Key("a")).ok()) << "a nanosecond too early";
  clock_.Advance(Duration(1));
  EXPECT_EQ(Passing(Key("a"), 2), 1) << "one has left the window";
  clock_.Advance(seconds(2));
  EXPECT_EQ(Passing(Key("a"), 2), 1);
  clock_.Advance(seconds(60));
  EXPECT_EQ(Passing(Key("a"), 30), 20);
}

TEST_F(SessionRatesTest, WhatIsRefusedAfterAllDoesNotCount) {
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(rates_.Admit(Key("a")).ok()) << i;
  EXPECT_EQ(Passing(Key("a"), 21), 20);
}

TEST_F(SessionRatesTest, EachProjectHasItsRateAndSomeHaveNone) {
  EXPECT_EQ(Passing(Key("a", "slow"), 3), 1);
  EXPECT_EQ(Passing(Key("a", "driving"), 3), 3) << "the same session id elsewhere";
  EXPECT_EQ(Passing(Key("a", "free"), 1000), 1000);
  EXPECT_EQ(Passing(Key("a", "default"), 1000), 1000) << "no project of the settings";
  EXPECT_EQ(Passing(Key("a", "slow", "away"), 1000), 1000) << "another tenant's";
}

TEST_F(SessionRatesTest, WhoAskedLongAgoIsForgottenAndNobodyElse) {
  EXPECT_EQ(Passing(Key("a"), 20), 20);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Takes(Key("s" + std::to_string(i))).ok());
  clock_.Advance(seconds(59));
  EXPECT_EQ(Passing(Key("late"), 20), 20);
  clock_.Advance(seconds(2));  // tidied at the next
  EXPECT_EQ(Passing(Key("a"), 21), 20);
  EXPECT_EQ(Passing(Key("late"), 1), 0);
}

}  // namespace
}  // namespace tutti::app
