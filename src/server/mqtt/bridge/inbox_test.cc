#include "server/mqtt/bridge/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class InboxTest : public testing::Test {
 protected:
  // A sink that records offered messages.
  MessagePort::Sink Keep() {
    return [this](Message message, Receipt receipt) {
      offers_.emplace_back(std::move(message), std::move(receipt));
    };
  }
  bool Receive(uint16_t packet_id, const std::string& topic, bool redelivered = false,
               uint8_t qos = 1) {
    Message message;
    message.topic = topic;
    message.payload = "p" + std::to_string(packet_id);
    message.qos = qos;
    message.redelivered = redelivered;
    return inbox_.Receive(packet_id, std::move(message), now_);
  }
  static Status Overloaded() { return Unavailable("overloaded", ""); }

  TimePoint now_{seconds(1000)};
  std::atomic<int> wakes_ = 0;
  Inbox inbox_{[this] { ++wakes_; }};
  std::vector<std::pair<Message, Receipt>> offers_;
};

TEST_F(InboxTest, NothingIsAcknowledgedBeforeItsReceipt) {
  ASSERT_TRUE(inbox_.Subscribe("a/+", Keep()).ok());
  ASSERT_TRUE(Receive(7, "a/b"));
  ASSERT_EQ(offers_.size(), 1u);
  EXPECT_EQ(offers_[0].first.payload, "p7");
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  EXPECT_EQ(inbox_.held(), 1u);
  offers_[0].second.Accept();
  EXPECT_EQ(wakes_, 1);
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(7));
  EXPECT_EQ(inbox_.held(), 0u);
  EXPECT_EQ(inbox_.held_bytes(), 0u);
}

TEST_F(InboxTest, AcknowledgementsLeaveInTheOrderInWhichTheMessagesCame) {
  ASSERT_TRUE(inbox_.Subscribe("#", Keep()).ok());
  for (const uint16_t id : std::vector<uint16_t>{5, 3, 9}) Receive(id, "t");
  offers_[2].second.Accept();
  offers_[1].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  offers_[0].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(5, 3, 9));
}

TEST_F(InboxTest, EverySinkWhoseFilterMatchesMustAccept) {
  ASSERT_TRUE(inbox_.Subscribe("a/#", Keep()).ok());
  ASSERT_TRUE(inbox_.Subscribe("$share/llm/+/b", Keep()).ok());
  ASSERT_TRUE(inbox_.Subscribe("other", Keep()).ok());
  EXPECT_THAT(inbox_.filters(), ElementsAre("a/#", "$share/llm/+/b", "other"));
  Receive(1, "a/b");
  ASSERT_EQ(offers_.size(), 2u);
  offers_[0].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  offers_[1].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
}

TEST_F(InboxTest, OffersRefusedMessageAgainAfterGrowingPause) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Receive(1, "t");
  Duration pause = milliseconds(100);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(offers_.size(), static_cast<size_t>(i + 1));
    EXPECT_EQ(offers_.back().first.redelivered, i > 0);
    offers_.back().second.Refuse(Overloaded());
    EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
    EXPECT_EQ(inbox_.due(), now_ + pause) << i;
    now_ += pause - milliseconds(1);
    EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
    EXPECT_EQ(offers_.size(), static_cast<size_t>(i + 1)) << "not before";
    now_ += milliseconds(1);
    EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
    pause = std::min<Duration>(pause * 2, seconds(5));
  }
  offers_.back().second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
  EXPECT_EQ(inbox_.counts().refused, 8u);
  EXPECT_EQ(inbox_.due(), TimePoint::max());
}

TEST_F(InboxTest, WhileOneIsRefusedLaterOnesWaitAndThenComeInOrder) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Receive(1, "t");
  offers_[0].second.Refuse(Overloaded());
  inbox_.Settle(now_);
  for (uint16_t id = 2; id <= 4; ++id) Receive(id, "t");
  EXPECT_EQ(offers_.size(), 1u);
  now_ += seconds(1);
  inbox_.Settle(now_);
  ASSERT_EQ(offers_.size(), 2u) << "one alone asks whether it is over";
  EXPECT_EQ(offers_[1].first.payload, "p1");
  offers_[1].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
  ASSERT_EQ(offers_.size(), 5u);
  EXPECT_EQ(offers_[2].first.payload, "p2");
  EXPECT_EQ(offers_[4].first.payload, "p4");
}

TEST_F(InboxTest, AMessageThatExpiredWhileItWasRefusedIsGivenUp) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Message message;
  message.topic = "t";
  message.qos = 1;
  message.expires = now_ + seconds(2);
  ASSERT_TRUE(inbox_.Receive(1, std::move(message), now_));
  now_ += seconds(2);
  offers_[0].second.Refuse(Overloaded());
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
  EXPECT_EQ(inbox_.counts().expired, 1u);
}

TEST_F(InboxTest, AForgottenReceiptRefuses) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Receive(1, "t");
  offers_.clear();
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  EXPECT_EQ(inbox_.counts().refused, 1u);
  EXPECT_EQ(inbox_.held(), 1u);
}

TEST_F(InboxTest, ReceiptsOfALostConnectionMeanNothingOnTheNext) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Receive(1, "t");
  inbox_.Lost();
  EXPECT_EQ(inbox_.held(), 0u);
  Receive(1, "t", /*redelivered=*/true);
  ASSERT_EQ(offers_.size(), 2u);
  EXPECT_TRUE(offers_[1].first.redelivered);
  offers_[0].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty()) << "that was the old one's";
  offers_[1].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
}

TEST_F(InboxTest, QosZeroIsOfferedAndNotKept) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  ASSERT_TRUE(Receive(0, "t", false, 0));
  ASSERT_EQ(offers_.size(), 1u);
  EXPECT_EQ(inbox_.held(), 0u);
  offers_[0].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  EXPECT_EQ(inbox_.counts().accepted, 1u);
}

TEST_F(InboxTest, WhatNobodyAskedForIsAcknowledgedAndCounted) {
  ASSERT_TRUE(inbox_.Subscribe("mine", Keep()).ok());
  Receive(1, "left/by/an/earlier/run");
  EXPECT_THAT(offers_, IsEmpty());
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
  EXPECT_EQ(inbox_.counts().unmatched, 1u);
}

TEST_F(InboxTest, IgnoresDuplicateAndRejectsReusedIdOnOneConnection) {
  ASSERT_TRUE(inbox_.Subscribe("#", Keep()).ok());
  Receive(1, "t");
  EXPECT_TRUE(Receive(1, "t", /*redelivered=*/true));
  EXPECT_EQ(offers_.size(), 1u);
  EXPECT_FALSE(Receive(1, "t"));
  EXPECT_FALSE(Receive(1, "u", true));
}

TEST_F(InboxTest, WhatIsTooLargeIsAcknowledgedInItsTurnAndOfferedToNobody) {
  ASSERT_TRUE(inbox_.Subscribe("t", Keep()).ok());
  Receive(1, "t");
  inbox_.ReceiveTooLarge(2);
  inbox_.ReceiveTooLarge(std::nullopt);
  EXPECT_THAT(inbox_.Settle(now_), IsEmpty());
  EXPECT_EQ(offers_.size(), 1u);
  offers_[0].second.Accept();
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1, 2));
  EXPECT_EQ(inbox_.counts().too_large, 2u);
}

TEST_F(InboxTest, ASinkMayAcceptAtOnceAndFromAnyThread) {
  ASSERT_TRUE(inbox_.Subscribe("now", [](Message, Receipt receipt) { receipt.Accept(); }).ok());
  ASSERT_TRUE(inbox_.Subscribe("later", Keep()).ok());
  Receive(1, "now");
  EXPECT_THAT(inbox_.Settle(now_), ElementsAre(1));
  for (uint16_t id = 1; id <= 100; ++id) Receive(id, "later");
  std::thread others[4];
  for (size_t t = 0; t < 4; ++t) {
    others[t] = std::thread([this, t] {
      for (size_t i = t; i < offers_.size(); i += 4) offers_[i].second.Accept();
    });
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(inbox_.Settle(now_).size(), 100u);
}

TEST_F(InboxTest, AWordThatIsNoFilterIsRefused) {
  for (const char* filter : {"", "a/#/b", "a+", "$share//t", "\xFF"}) {
    EXPECT_EQ(inbox_.Subscribe(filter, Keep()).reason(), "invalid_value") << filter;
  }
}

}  // namespace
}  // namespace tutti::mqtt::bridge
