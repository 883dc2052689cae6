#include "services/sessions/turn_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::sessions {
namespace {

class TurnQueueTest : public ::testing::Test {
 protected:
  TurnQueue::Offer Add(const std::string& id, BusyPolicy policy = BusyPolicy::kEnqueue) {
    const Result<TurnQueue::Offer> offer = queue_.Add(id, policy);
    EXPECT_TRUE(offer.ok()) << offer.status();
    return offer.ok() ? *offer : TurnQueue::Offer{};
  }
  std::vector<int64_t> RunAll() {
    std::vector<int64_t> order;
    if (!queue_.running().empty()) queue_.End(queue_.running().front());
    while (const auto turn = queue_.Begin()) {
      order.push_back(*turn);
      queue_.End(*turn);
    }
    return order;
  }

  TurnQueue queue_{{}, 1};
};

TEST_F(TurnQueueTest, MessagesRunOneAfterTheOtherInTheirOrder) {
  EXPECT_EQ(Add("a").turn, 1);
  EXPECT_EQ(queue_.Begin(), 1);
  EXPECT_EQ(Add("b").position, 1u);
  EXPECT_EQ(Add("c").position, 2u);
  EXPECT_EQ(queue_.Begin(), std::nullopt) << "one at a time";
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(TurnQueueTest, TheSameIdIsTheSameTurnWhateverBecameOfIt) {
  EXPECT_EQ(Add("a").turn, 1);
  EXPECT_TRUE(Add("a").repeated);
  EXPECT_EQ(queue_.Begin(), 1);
  EXPECT_TRUE(Add("a").repeated);
  queue_.End(queue_.running().front());
  EXPECT_EQ(Add("a").turn, 1);
  EXPECT_TRUE(Add("a", BusyPolicy::kReject).repeated);
  EXPECT_TRUE(queue_.idle()) << "nothing was added";
  EXPECT_EQ(Add("b").turn, 2);
}

TEST_F(TurnQueueTest, TheSeventeenthThatWaitsIsRefusedAndChangesNothing) {
  Add("running");
  queue_.Begin();
  for (int i = 0; i < 16; ++i) Add(std::to_string(i));
  const Result<TurnQueue::Offer> refused = queue_.Add("more", BusyPolicy::kEnqueue);
  EXPECT_EQ(refused.status().reason(), "session_queue_full");
  EXPECT_EQ(refused.status().excess(), (Status::Excess{17, 16}));
  EXPECT_EQ(queue_.Add("more", BusyPolicy::kInterrupt).status().reason(), "session_queue_full");
  EXPECT_EQ(queue_.waiting(), 16u);
  queue_.End(queue_.running().front());
  queue_.Begin();
  EXPECT_FALSE(Add("more").repeated) << "a refused id was not remembered";
}

TEST_F(TurnQueueTest, RejectIsRefusedWhileATurnRunsOrWaits) {
  EXPECT_EQ(Add("a", BusyPolicy::kReject).turn, 1);
  EXPECT_EQ(queue_.Add("b", BusyPolicy::kReject).status().reason(), "conversation_busy");
  queue_.Begin();
  EXPECT_EQ(queue_.Add("b", BusyPolicy::kReject).status().reason(), "conversation_busy");
  queue_.End(queue_.running().front());
  EXPECT_EQ(Add("b", BusyPolicy::kReject).turn, 2);
}

TEST_F(TurnQueueTest, InterruptAndRollbackCutTheRunningTurnShortAndGoFirst) {
  for (const auto& [policy, cut] : {std::pair(BusyPolicy::kInterrupt, CutShort::kKeep),
                                    {BusyPolicy::kRollback, CutShort::kForget}}) {
    TurnQueue queue({}, 1);
    EXPECT_TRUE(queue.Add("a", policy).ok()) << "nothing to cut";
    EXPECT_EQ(queue.Begin(), 1);
    EXPECT_TRUE(queue.Add("b", BusyPolicy::kEnqueue).ok());
    const Result<TurnQueue::Offer> offer = queue.Add("c", policy);
    ASSERT_TRUE(offer.ok());
    EXPECT_EQ(offer->cancel, cut);
    EXPECT_EQ(offer->position, 1u);
    queue.End(queue.running().front());
    EXPECT_EQ(queue.Begin(), 3);
    queue.End(queue.running().front());
    EXPECT_EQ(queue.Begin(), 2);
  }
}

TEST_F(TurnQueueTest, WhatSteersGoesFirstButBehindWhatSteersAlready) {
  Add("a", BusyPolicy::kSteer);
  queue_.Begin();
  Add("b");
  EXPECT_EQ(Add("c", BusyPolicy::kSteer).cancel, CutShort::kSteer);
  EXPECT_EQ(Add("d", BusyPolicy::kSteer).position, 2u);
  EXPECT_EQ(Add("e", BusyPolicy::kInterrupt).position, 1u);
  for (const int64_t turn : {5, 3, 4, 2}) {
    queue_.End(queue_.running().front());
    EXPECT_EQ(queue_.Begin(), turn);
  }
}

TEST_F(TurnQueueTest, AWaitingTurnCanBeWithdrawnAndARunningOneCannot) {
  Add("a");
  queue_.Begin();
  Add("b");
  Add("c");
  EXPECT_FALSE(queue_.Withdraw(1));
  EXPECT_TRUE(queue_.Withdraw(2));
  EXPECT_FALSE(queue_.Withdraw(2));
  EXPECT_EQ(RunAll(), std::vector<int64_t>{3});
}

TEST_F(TurnQueueTest, ParallelMessagesRunBesideEachOtherAndOthersWaitForAllOfThem) {
  TurnQueue queue({.waiting = 16, .remembered = 64, .parallel = 2}, 1);
  const auto add = [&](const char* id, bool parallel) {
    const Result<TurnQueue::Offer> offer = queue.Add(id, BusyPolicy::kEnqueue, parallel);
    EXPECT_TRUE(offer.ok());
  };
  for (const char* id : {"a", "b", "c"}) add(id, true);
  add("d", false);
  EXPECT_EQ(queue.Begin(), 1);
  EXPECT_EQ(queue.Begin(), 2);
  EXPECT_EQ(queue.Begin(), std::nullopt) << "two at once";
  queue.End(2);
  EXPECT_EQ(queue.Begin(), 3);
  queue.End(1);
  EXPECT_EQ(queue.Begin(), std::nullopt) << "the next is not parallel";
  queue.End(3);
  EXPECT_EQ(queue.Begin(), 4);
  add("e", true);
  EXPECT_EQ(queue.Begin(), std::nullopt) << "what runs is not parallel";
}

TEST_F(TurnQueueTest, WhatWaitedWhenAProcessEndedWaitsInTheNext) {
  TurnQueue queue({}, 3);
  queue.Remember("a", 1);
  queue.Restore("b", 2, false);
  queue.Restore("c", 5, false);
  EXPECT_EQ(queue.Find("a"), 1);
  EXPECT_EQ(queue.Begin(), 2);
  EXPECT_EQ(queue.PositionOf(5), 1u);
  const Result<TurnQueue::Offer> offer = queue.Add("d", BusyPolicy::kEnqueue);
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->turn, 6) << "no number is given twice";
}

TEST_F(TurnQueueTest, OnlyTheNewestIdsAreRemembered) {
  for (int i = 0; i < 65; ++i) {
    Add(std::to_string(i));
    queue_.Begin();
    queue_.End(queue_.running().front());
  }
  EXPECT_TRUE(Add("1").repeated);
  EXPECT_FALSE(Add("0").repeated);
}

}  // namespace
}  // namespace tutti::sessions
