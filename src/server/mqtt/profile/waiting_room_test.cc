#include "server/mqtt/profile/waiting_room.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::mqtt::profile {
namespace {

using Outcome = WaitingRoom::Outcome;
using Ticket = WaitingRoom::Ticket;

const TimePoint kOpened{Duration(std::chrono::seconds(1))};

TEST(WaitingRoomTest, OneMoreThanThereIsRoomForIsRefusedAndTheOthersStay) {
  WaitingRoom room({.all = 3, .per_user = 3});
  std::vector<Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    Result<Ticket> ticket = room.Enter({}, kOpened);
    ASSERT_TRUE(ticket.ok());
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_EQ(room.Enter({}, kOpened).status().reason(), "overloaded");
  EXPECT_EQ(room.statistics().waiting, 3u);
  tickets.pop_back();
  EXPECT_TRUE(room.Enter({}, kOpened).ok()) << "its ticket went at once";
  EXPECT_EQ(room.statistics().waiting, 2u);
}

TEST(WaitingRoomTest, OneUserCannotFillIt) {
  WaitingRoom room({.all = 10, .per_user = 2});
  Result<Ticket> a = room.Enter(Claimant{.user = "alice"}, kOpened),
                 b = room.Enter(Claimant{.user = "alice"}, kOpened);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(room.Enter(Claimant{.user = "alice"}, kOpened).status().reason(), "tenant_concurrency");
  EXPECT_TRUE(room.Enter(Claimant{.user = "bob"}, kOpened).ok());
  a->Leave(Outcome::kProcessed, kOpened);
  EXPECT_TRUE(room.Enter(Claimant{.user = "alice"}, kOpened).ok());
}

TEST(WaitingRoomTest, NeitherCanAProjectWhoseUsersNobodyTells) {
  WaitingRoom room({.all = 10, .per_user = 1, .per_project = 2});
  Result<Ticket> a = room.Enter(Claimant{.project = "p"}, kOpened),
                 b = room.Enter(Claimant{.project = "p"}, kOpened);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(room.Enter(Claimant{.project = "p"}, kOpened).status().reason(), "tenant_concurrency");
  EXPECT_TRUE(room.Enter(Claimant{.project = "q"}, kOpened).ok());
  EXPECT_TRUE(room.Enter(Claimant{.user = "p"}, kOpened).ok()) << "a user of that name";
}

TEST(WaitingRoomTest, ItCountsWhatBecameOfEachOnceAndHowLongAnswersTook) {
  WaitingRoom room({.all = 10, .per_user = 10});
  const auto leave = [&](Outcome outcome, Duration after) {
    Result<Ticket> ticket = room.Enter({}, kOpened);
    ticket->Leave(outcome, kOpened + after);
    ticket->Leave(outcome, kOpened + after);  // has left already
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

TEST(WaitingRoomTest, ItIsCrowdedFromSeventyPercentAndNoLongerBelow) {
  WaitingRoom room({.all = 1000, .per_user = 1000});
  std::vector<Ticket> tickets;
  for (int i = 0; i < 699; ++i) tickets.push_back(*room.Enter({}, kOpened));
  EXPECT_EQ(room.CrowdingChange(), 0);
  tickets.push_back(*room.Enter({}, kOpened));
  EXPECT_EQ(room.CrowdingChange(), 1);
  EXPECT_EQ(room.CrowdingChange(), 0);
  tickets.pop_back();
  EXPECT_EQ(room.CrowdingChange(), -1);
}

}  // namespace
}  // namespace tutti::mqtt::profile
