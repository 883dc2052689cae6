#include <gtest/gtest.h>

#include "server/grpc/abuse_limits.h"

namespace tutti::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class AddressPenaltiesTest : public ::testing::Test {
 protected:
  const PenaltyLimits limits_{.addresses = 3};
  AddressPenalties penalties_{limits_};
  TimePoint now_ = TimePoint() + seconds(1000);

  Duration Wait(const std::string& address) { return penalties_.ServedAt(address, now_) - now_; }
};

TEST_F(AddressPenaltiesTest, OnlyTheAddressThatAbusedWaitsAndOnlyForAWhile) {
  penalties_.Add("10.0.0.1", now_);
  EXPECT_EQ(Wait("10.0.0.1"), limits_.first);
  EXPECT_EQ(Wait("10.0.0.2"), Duration::zero());
  now_ += limits_.first - milliseconds(1);
  EXPECT_EQ(Wait("10.0.0.1"), milliseconds(1));
  now_ += milliseconds(1);
  EXPECT_EQ(Wait("10.0.0.1"), Duration::zero());
}

TEST_F(AddressPenaltiesTest, EachFurtherAbuseDoublesTheWaitUpToItsLimit) {
  for (const int ms : {125, 250, 500, 1000, 2000, 2000}) {
    penalties_.Add("10.0.0.1", now_);
    EXPECT_EQ(Wait("10.0.0.1"), milliseconds(ms));
    now_ += seconds(3);
  }
}

TEST_F(AddressPenaltiesTest, AfterAMinuteItIsForgotten) {
  for (int i = 0; i < 4; ++i) penalties_.Add("10.0.0.1", now_);
  now_ += minutes(1);
  EXPECT_EQ(Wait("10.0.0.1"), Duration::zero());
  penalties_.Add("10.0.0.1", now_);
  EXPECT_EQ(Wait("10.0.0.1"), limits_.first);
}

TEST_F(AddressPenaltiesTest, WithoutRoomTheOldestIsForgotten) {
  for (int i = 0; i < 10; ++i) {
    penalties_.Add("10.0.0." + std::to_string(i), now_);
    now_ += milliseconds(1);
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Wait("10.0.0." + std::to_string(i)) > Duration::zero(), i >= 7) << i;
  }
}

}  // namespace
}  // namespace tutti::rpc
