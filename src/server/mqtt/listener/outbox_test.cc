#include "server/mqtt/listener/outbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace tutti::mqtt::listener {
namespace {

using std::chrono::seconds;

class OutboxTest : public ::testing::Test {
 protected:
  static Delivery Make(uint8_t qos, const std::string& payload,
                       std::optional<TimePoint> expires = std::nullopt) {
    Message message;
    message.topic = "t";
    message.payload = payload;
    message.expires = expires;
    Delivery delivery;
    delivery.message = std::make_shared<const Message>(std::move(message));
    delivery.qos = qos;
    return delivery;
  }
  Outbox::Pushed Push(uint8_t qos, const std::string& payload) {
    return outbox_.Push(Make(qos, payload));
  }
  // The messages that may be sent, as "payload" or "payload#id".
  std::vector<std::string> Payloads(size_t inflight = 20) {
    std::vector<std::string> all;
    while (const auto next = outbox_.Next(inflight, now_)) {
      all.push_back(next->message->payload + (next->dup ? "!" : ""));
      ids_.push_back(next->packet_id);
    }
    return all;
  }
  using Strings = std::vector<std::string>;

  Limits limits_;
  TimePoint now_ = TimePoint() + seconds(1000);
  Outbox outbox_{limits_};
  std::vector<uint16_t> ids_;
};

TEST_F(OutboxTest, OrderIsThatOfArrivalOverBothQos) {
  for (const char* payload : {"a", "b", "c", "d"})
    Push(static_cast<uint8_t>(payload[0] % 2), payload);
  EXPECT_EQ(Payloads(), (Strings{"a", "b", "c", "d"}));
  EXPECT_EQ(outbox_.waiting(), 0u);
  EXPECT_EQ(outbox_.inflight(), 2u);
}

TEST_F(OutboxTest, WhereAcknowledgementsAreOwedOnlyHintsPass) {
  for (const char* payload : {"1", "2", "3"}) Push(1, payload);
  Push(0, "hint");
  EXPECT_EQ(Payloads(2), (Strings{"1", "2", "hint"}));
  EXPECT_TRUE(outbox_.Acknowledge(ids_[0]));
  EXPECT_FALSE(outbox_.Acknowledge(ids_[0]));
  EXPECT_EQ(Payloads(2), (Strings{"3"}));
}

TEST_F(OutboxTest, WhenItIsFullHintsAreDroppedAndThenItOverflows) {
  limits_.queue_messages = 3;
  EXPECT_EQ(Push(0, "a"), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(0, "b"), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(1, "1"), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(0, "c"), Outbox::Pushed::kDropped);
  EXPECT_EQ(Push(1, "2"), Outbox::Pushed::kQueued) << "in place of the oldest hint";
  EXPECT_EQ(Push(1, "3"), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(1, "4"), Outbox::Pushed::kOverflow);
  EXPECT_EQ(outbox_.dropped(), 3u);
  EXPECT_EQ(Payloads(), (Strings{"1", "2", "3"}));
}

TEST_F(OutboxTest, BytesAreBoundedButOneMessageAlwaysFits) {
  limits_.queue_bytes = 1000;
  limits_.kept_bytes = 5000;
  const std::string large(4000, 'x'), small(700, 'x');
  EXPECT_EQ(Push(0, large), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(0, small), Outbox::Pushed::kDropped);
  EXPECT_EQ(Push(1, large), Outbox::Pushed::kQueued);
  EXPECT_EQ(outbox_.waiting(), 1u) << "the hint made room";
  EXPECT_EQ(Push(1, small), Outbox::Pushed::kQueued);
  EXPECT_EQ(Push(1, large), Outbox::Pushed::kOverflow);
  EXPECT_LE(outbox_.bytes(), limits_.kept_bytes);
}

TEST_F(OutboxTest, WhatIsNotAcknowledgedCountsUntilItIs) {
  Push(1, std::string(1000, 'x'));
  const size_t bytes = outbox_.bytes();
  Payloads();
  EXPECT_EQ(outbox_.bytes(), bytes);
  outbox_.Acknowledge(ids_[0]);
  EXPECT_EQ(outbox_.bytes(), 0u);
}

TEST_F(OutboxTest, ExpiredMessagesAreDroppedWhenTheirTurnComes) {
  outbox_.Push(Make(1, "gone", now_));
  outbox_.Push(Make(0, "gone", now_ - seconds(1)));
  outbox_.Push(Make(1, "left", now_ + seconds(1)));
  EXPECT_EQ(Payloads(), (Strings{"left"}));
  EXPECT_EQ(outbox_.dropped(), 2u);
}

TEST_F(OutboxTest, WhatIsSentAgainKeepsItsOrderAndItsIdsWithinTheClientsMaximum) {
  for (const char* payload : {"1", "2", "3"}) Push(1, payload);
  Payloads();
  Push(1, "4");
  outbox_.Resend();
  EXPECT_EQ(Payloads(2), (Strings{"1!", "2!"}));
  EXPECT_EQ(ids_[3], ids_[0]);
  outbox_.Acknowledge(ids_[0]);
  EXPECT_EQ(Payloads(2), (Strings{"3!"}));
  outbox_.Acknowledge(ids_[1]);
  EXPECT_EQ(Payloads(2), (Strings{"4"}));
}

TEST_F(OutboxTest, WhatIsAcknowledgedBeforeItWasSentAgainIsNotSentAgain) {
  for (const char* payload : {"1", "2", "3"}) Push(1, payload);
  Payloads();
  outbox_.Resend();
  EXPECT_TRUE(outbox_.Acknowledge(ids_[1]));
  EXPECT_EQ(Payloads(), (Strings{"1!", "3!"}));
}

TEST_F(OutboxTest, PacketIdsAreNeverZeroAndNeverTwiceInUse) {
  Random random(1);
  std::set<uint16_t> used;
  for (int i = 0; i < 200'000; ++i) {
    Push(1, "x");
    const auto next = outbox_.Next(20, now_);
    if (next) {
      ASSERT_NE(next->packet_id, 0);
      ASSERT_TRUE(used.insert(next->packet_id).second);
    }
    while (used.size() > random.Below(21)) {
      auto one = used.begin();
      std::advance(one, random.Below(used.size()));
      ASSERT_TRUE(outbox_.Acknowledge(*one));
      used.erase(one);
    }
  }
}

}  // namespace
}  // namespace tutti::mqtt::listener
