// The bytes that a connection may send in addition to those that its calls explain.
#include <gtest/gtest.h>

#include "server/grpc/abuse_limits.h"

namespace tutti::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMessage = 8 << 20, kKiB = 1 << 10, kMiB = 1 << 20;

class ConnectionAccountTest : public ::testing::Test {
 protected:
  const AbuseLimits limits_;
  TimePoint now_ = TimePoint() + seconds(1000);
  ConnectionAccount account_{limits_, kMessage, now_};

  // Judges repeatedly, as the acceptor does with a suspect.
  bool Abuses(int64_t taken) {
    bool abuse = account_.Judge(taken, now_).abuse;
    for (int look = 0; look < 10 && !abuse; ++look) {
      now_ += milliseconds(20);
      abuse = account_.Judge(taken, now_).abuse;
    }
    return abuse;
  }
};

TEST_F(ConnectionAccountTest, BytesThatNoCallExplainsAreBounded) {
  EXPECT_EQ(account_.Judge(limits_.unexplained_bytes, now_).debt, limits_.unexplained_bytes);
  EXPECT_FALSE(Abuses(limits_.unexplained_bytes));
  EXPECT_TRUE(Abuses(limits_.unexplained_bytes + 4 * kKiB));
}

TEST_F(ConnectionAccountTest, ForAMomentMoreMayBeUnexplained) {
  EXPECT_FALSE(account_.Judge(6 * kMiB, now_).abuse);
  EXPECT_TRUE(account_.Judge(6 * kMiB, now_).suspect);
  now_ += seconds(10);  // the judge was delayed, like all threads
  EXPECT_FALSE(account_.Judge(6 * kMiB, now_).abuse);
  account_.MessageCame(6 * kMiB);
  EXPECT_FALSE(account_.Judge(6 * kMiB, now_).suspect);
  EXPECT_FALSE(Abuses(6 * kMiB));
  EXPECT_EQ(account_.Judge(30 * kMiB, now_).why, "bytes");
}

TEST_F(ConnectionAccountTest, CallsAndMessagesExplainWhatTheyTake) {
  int64_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    account_.CallBegins(200);
    account_.ReadsBegin();
    account_.MessageCame(100 * kKiB);
    account_.ReadsEnd();
    account_.CallEnds();
    taken += 200 + 100 * kKiB + 300;  // frames of 16 KiB, each with nine bytes, and the window's
    EXPECT_FALSE(Abuses(taken));
  }
  EXPECT_LT(account_.Judge(taken, now_).debt, kKiB);
}

TEST_F(ConnectionAccountTest, ACallThatReadsMayOweAMessage) {
  account_.CallBegins(200);
  account_.ReadsBegin();
  EXPECT_FALSE(Abuses(kMessage));
  account_.ReadsBegin();
  EXPECT_FALSE(Abuses(2 * kMessage));
  EXPECT_TRUE(Abuses(2 * kMessage + 2 * kMiB));
}

TEST_F(ConnectionAccountTest, MessagesOfCallsThatEndedEarlyAreForgivenAndLeaveNoCredit) {
  int64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    account_.CallBegins(200);
    account_.ReadsBegin();
    taken += kMessage / 2;
    account_.MessageLost();
    account_.ReadsEnd();
    account_.CallEnds();
    EXPECT_FALSE(Abuses(taken));
    now_ += milliseconds(50);
  }
  now_ += seconds(3);
  EXPECT_FALSE(Abuses(taken));
  EXPECT_TRUE(Abuses(taken + 2 * kMiB));
}

TEST_F(ConnectionAccountTest, AClientThatLearnsLateOfACallsEndIsForgivenToo) {
  account_.CallBegins(200);
  account_.MessageLost();
  EXPECT_FALSE(Abuses(1000));
  now_ += seconds(1);
  EXPECT_FALSE(Abuses(4 * kMiB));
  now_ += seconds(2);
  EXPECT_TRUE(Abuses(6 * kMiB));
}

TEST_F(ConnectionAccountTest, WhoGetsMessagesThroughIsForgivenALittleForEach) {
  int64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    account_.CallBegins(200);
    account_.ReadsBegin();
    account_.MessageCame(1000);
    account_.ReadsEnd();
    account_.CallEnds();
    taken += 1200 + 64 * kKiB;  // start of a message of an unseen call
    EXPECT_FALSE(Abuses(taken));
  }
  for (int i = 0; i < 1000; ++i) account_.MessageCame(0);
  account_.Judge(taken, now_);
  EXPECT_TRUE(Abuses(taken + 2 * kMiB)) << "and has no credit";
}

TEST_F(ConnectionAccountTest, ManyCallsWithoutBytesAreNoCreditForLater) {
  for (int i = 0; i < 100'000; ++i) {
    account_.CallBegins(1000);
    account_.CallEnds();
  }
  account_.Judge(0, now_);
  EXPECT_FALSE(Abuses(limits_.unexplained_bytes));
  EXPECT_TRUE(Abuses(kMiB));
}

TEST_F(ConnectionAccountTest, ALongSilenceIsNoCreditEither) {
  now_ += std::chrono::hours(100);
  EXPECT_FALSE(Abuses(0));
  EXPECT_TRUE(Abuses(kMiB));
}

TEST_F(ConnectionAccountTest, AReaderOfLargeAnswersMayOpenItsWindow) {
  int64_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    account_.Written(10 * kMiB);
    taken += 160 * 26;  // an update of both windows for each 64 KiB
    EXPECT_FALSE(Abuses(taken));
  }
}

TEST_F(ConnectionAccountTest, KeepAliveForADayIsNoAbuse) {
  int64_t taken = 0;
  for (int i = 0; i < 24 * 360; ++i) {
    now_ += seconds(10);
    taken += 17 + 17 + 64;  // ping, answer, TLS
    EXPECT_FALSE(Abuses(taken));
  }
}

TEST_F(ConnectionAccountTest, CallsThatAreNotDoneWithAreBounded) {
  for (int i = 0; i < limits_.calls; ++i) account_.CallBegins(100);
  EXPECT_FALSE(Abuses(0));
  account_.CallBegins(100);
  EXPECT_TRUE(Abuses(0));
  EXPECT_EQ(account_.Judge(0, now_).why, "calls");
  account_.CallEnds();
  EXPECT_FALSE(Abuses(0));
}

// The library reports calls after their bytes were taken and judged: without a wake-up by the
// account, a client that sends nothing more would not be judged again.
TEST_F(ConnectionAccountTest, ItSaysSoWhenItsCallsBecomeTooMany) {
  int told = 0;
  AbuseLimits limits;
  limits.calls = 3;
  limits.resets = 2;
  ConnectionAccount account(limits, kMessage, now_, [&] { ++told; });
  for (int i = 0; i < 3; ++i) account.CallBegins(100);
  EXPECT_EQ(told, 0);
  account.CallBegins(100);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(account.Judge(0, now_).why, "calls");
  account.CallBegins(100);
  EXPECT_EQ(told, 1);
  for (int i = 0; i < 5; ++i) account.Reset(milliseconds(1), now_);
  EXPECT_EQ(told, 2);
}

TEST_F(ConnectionAccountTest, CallsGivenUpQuicklyAreCountedAndThoseOfPatientClientsAreNot) {
  for (int i = 0; i < limits_.resets; ++i) account_.Reset(milliseconds(1), now_);
  EXPECT_FALSE(account_.Judge(0, now_).abuse);
  for (int i = 0; i < 10'000; ++i) account_.Reset(milliseconds(100), now_);
  EXPECT_FALSE(account_.Judge(0, now_).abuse);
  now_ += seconds(2);  // 200 more are allowed
  for (int i = 0; i < 200; ++i) account_.Reset(milliseconds(1), now_);
  EXPECT_FALSE(account_.Judge(0, now_).abuse);
  account_.Reset(milliseconds(1), now_);
  EXPECT_TRUE(account_.Judge(0, now_).abuse);
  EXPECT_EQ(account_.Judge(0, now_).why, "resets");
}

TEST(ConnectionAccounts, AreFoundByPeerUntilTheirConnectionEnds) {
  ConnectionAccounts accounts;
  const auto make = [] {
    return std::make_shared<ConnectionAccount>(AbuseLimits(), kMessage, TimePoint());
  };
  const auto first = make(), second = make(), local = make();
  accounts.Add("ipv4:127.0.0.1:5000", first);
  EXPECT_EQ(accounts.Find("ipv4:127.0.0.1:5000"), first);
  EXPECT_EQ(accounts.Find("ipv4:127.0.0.1:5001"), nullptr);
  accounts.Add("ipv4:127.0.0.1:5000", second);  // the port is reused before the old end is noticed
  accounts.Remove("ipv4:127.0.0.1:5000", first);
  EXPECT_EQ(accounts.Find("ipv4:127.0.0.1:5000"), second);
  accounts.Remove("ipv4:127.0.0.1:5000", second);
  EXPECT_EQ(accounts.Find("ipv4:127.0.0.1:5000"), nullptr);
  accounts.Add("ipv6:%5Bfe80::1%5D:5000", local);
  EXPECT_EQ(accounts.Find("ipv6:%5Bfe80::1%25eth0%5D:5000"), local);
}

}  // namespace
}  // namespace tutti::rpc
