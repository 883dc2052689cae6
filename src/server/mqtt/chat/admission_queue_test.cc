#include "server/mqtt/chat/admission_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::mqtt::chat {
namespace {

using Outcome = AdmissionQueue::Outcome;
using Permit = AdmissionQueue::Permit;

const TimePoint kOpened{Duration(std::chrono::seconds(1))};

TEST(AdmissionQueueTest, OneMoreThanThereIsRoomForIsRefusedAndTheOthersStay) {
  AdmissionQueue room({.all = 3, .per_user = 3});
  std::vector<Permit> permits;
  for (int i = 0; i < 3; ++i) {
    Result<Permit> permit = room.Enter({}, kOpened);
    ASSERT_TRUE(permit.ok());
    permits.push_back(*std::move(permit));
  }
  EXPECT_EQ(room.Enter({}, kOpened).status().reason(), "overloaded");
  EXPECT_EQ(room.statistics().waiting, 3u);
  permits.pop_back();
  EXPECT_TRUE(room.Enter({}, kOpened).ok()) << "its permit went at once";
  EXPECT_EQ(room.statistics().waiting, 2u);
}

TEST(AdmissionQueueTest, OneUserCannotFillIt) {
  AdmissionQueue room({.all = 10, .per_user = 2});
  Result<Permit> a = room.Enter(QuotaKey{.user = "alice"}, kOpened),
                 b = room.Enter(QuotaKey{.user = "alice"}, kOpened);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(room.Enter(QuotaKey{.user = "alice"}, kOpened).status().reason(), "tenant_concurrency");
  EXPECT_TRUE(room.Enter(QuotaKey{.user = "bob"}, kOpened).ok());
  a->Leave(Outcome::kProcessed, kOpened);
  EXPECT_TRUE(room.Enter(QuotaKey{.user = "alice"}, kOpened).ok());
}

TEST(AdmissionQueueTest, NeitherCanAProjectWhoseUsersNobodyTells) {
  AdmissionQueue room({.all = 10, .per_user = 1, .per_project = 2});
  Result<Permit> a = room.Enter(QuotaKey{.project = "p"}, kOpened),
                 b = room.Enter(QuotaKey{.project = "p"}, kOpened);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(room.Enter(QuotaKey{.project = "p"}, kOpened).status().reason(), "tenant_concurrency");
  EXPECT_TRUE(room.Enter(QuotaKey{.project = "q"}, kOpened).ok());
  EXPECT_TRUE(room.Enter(QuotaKey{.user = "p"}, kOpened).ok()) << "a user of that name";
}

TEST(AdmissionQueueTest, ItCountsWhatBecameOfEachOnceAndHowLongAnswersTook) {
  AdmissionQueue room({.all = 10, .per_user = 10});
  const auto leave = [&](Outcome outcome, Duration after) {
    Result<Permit> permit = room.Enter({}, kOpened);
    permit->Leave(outcome, kOpened + after);
    permit->Leave(outcome, kOpened + after);  // has left already
  };
  leave(Outcome::kProcessed, std::chrono::seconds(1));
  leave(Outcome::kProcessed, std::chrono::seconds(3));
  leave(Outcome::kError, std::chrono::seconds(100));
  leave(Outcome::kLeft, std::chrono::seconds(100));
  room.Count(Outcome::kRejected);
  const Statistics statistics = room.statistics();
  EXPECT_EQ(statistics.processed, 2u);
  EXPECT_EQ(statistics.errors, 1u);
  EXPECT_EQ(statistics.rejected, 1u);
  EXPECT_EQ(statistics.waiting, 0u);
  EXPECT_EQ(statistics.average, Duration(std::chrono::seconds(2)));
}

TEST(AdmissionQueueTest, ItIsCrowdedFromSeventyPercentAndNoLongerBelow) {
  AdmissionQueue room({.all = 1000, .per_user = 1000});
  std::vector<Permit> permits;
  for (int i = 0; i < 699; ++i) permits.push_back(*room.Enter({}, kOpened));
  EXPECT_EQ(room.CrowdingChange(), 0);
  permits.push_back(*room.Enter({}, kOpened));
  EXPECT_EQ(room.CrowdingChange(), 1);
  EXPECT_EQ(room.CrowdingChange(), 0);
  permits.pop_back();
  EXPECT_EQ(room.CrowdingChange(), -1);
}

}  // namespace
}  // namespace tutti::mqtt::chat
