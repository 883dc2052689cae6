#include "server/mqtt/bridge/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "mqtt/codec.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Message Text(const std::string& payload, uint8_t qos = 1) {
  Message message;
  message.topic = "t";
  message.payload = payload;
  message.qos = qos;
  return message;
}

class OutboxTest : public testing::Test {
 protected:
  Status Push(const std::string& payload, uint8_t qos = 1) { return Push(Text(payload, qos)); }
  Status Push(Message message) {
    const std::string name = message.payload;
    return outbox_.Push(std::move(message), [this, name](const Status& status) {
      told_[name].push_back(status.reason());
    });
  }
  void Connect(size_t window, bool resumed = false) {
    BrokerTakes takes;
    takes.in_flight = window;
    takes.session_resumed = resumed;
    outbox_.Connected(takes);
  }
  // The messages that may be sent now.
  std::vector<Publish> Sent() {
    std::string out;
    while (outbox_.SendNext(now_, out)) {
    }
    std::vector<Publish> packets;
    FrameSplitter splitter({});
    for (std::string_view rest = out; !rest.empty();) {
      rest.remove_prefix(splitter.Feed(rest));
      if (splitter.done()) {
        packets.push_back(std::get<Publish>(Decode(Version::k5, splitter.Take()).packet));
      }
    }
    return packets;
  }
  std::vector<std::string> SentPayloads() {
    std::vector<std::string> payloads;
    for (const Publish& packet : Sent()) payloads.push_back(packet.payload);
    return payloads;
  }

  TimePoint now_{seconds(1000)};
  Outbox outbox_{{.messages = 5, .bytes = 100'000}};
  std::map<std::string, std::vector<std::string>> told_;  // by payload: reasons, "" = OK
};

TEST_F(OutboxTest, SendsWaitingInOrderAndReportsAcknowledgement) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Push(name).ok());
  EXPECT_THAT(Sent(), IsEmpty()) << "no connection";
  Connect(20);
  const auto packets = Sent();
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].payload + packets[1].payload + packets[2].payload, "abc");
  EXPECT_FALSE(packets[0].dup);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(outbox_.Acknowledge(packets[1].packet_id, OkStatus()));
  EXPECT_FALSE(outbox_.Acknowledge(packets[1].packet_id, OkStatus())) << "once";
  EXPECT_THAT(told_["b"], ElementsAre(""));
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_EQ(outbox_.load().messages, 2u);
}

TEST_F(OutboxTest, TheWindowOfTheBrokerHolds) {
  Connect(2);
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(Push(name).ok());
  const auto first = Sent();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_THAT(Sent(), IsEmpty());
  outbox_.Acknowledge(first[0].packet_id, OkStatus());
  EXPECT_THAT(SentPayloads(), ElementsAre("c"));
}

TEST_F(OutboxTest, QosZeroDoesNotOvertakeAMessageThatHasToWait) {
  Connect(1);
  ASSERT_TRUE(Push("first").ok());
  ASSERT_TRUE(Push("second").ok());
  ASSERT_TRUE(Push("delta", 0).ok());
  const auto packets = Sent();
  ASSERT_EQ(packets.size(), 1u);
  outbox_.Acknowledge(packets[0].packet_id, OkStatus());
  EXPECT_THAT(SentPayloads(), ElementsAre("second", "delta"));
  EXPECT_THAT(told_["delta"], ElementsAre("")) << "told when it is sent";
}

TEST_F(OutboxTest, ResendsUnacknowledgedFirstWithSameIdAsDuplicate) {
  Connect(2);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Push(name).ok());
  const auto before = Sent();
  outbox_.Acknowledge(before[0].packet_id, OkStatus());
  outbox_.Lost();
  Connect(2, /*resumed=*/true);
  const auto after = Sent();
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0].payload, "b");
  EXPECT_EQ(after[0].packet_id, before[1].packet_id);
  EXPECT_TRUE(after[0].dup);
  EXPECT_EQ(after[1].payload, "c");
  EXPECT_FALSE(after[1].dup) << "it was never sent";
  EXPECT_NE(after[1].packet_id, after[0].packet_id);
}

TEST_F(OutboxTest, ABrokerThatForgotTheSessionGetsThemAsNew) {
  Connect(2);
  ASSERT_TRUE(Push("a").ok());
  Sent();
  outbox_.Lost();
  Connect(2, /*resumed=*/false);
  const auto after = Sent();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_FALSE(after[0].dup);
}

TEST_F(OutboxTest, QosZeroNeedsAConnectionAndIsGivenUpWithIt) {
  EXPECT_EQ(Push("early", 0).reason(), "overloaded");
  Connect(1);
  ASSERT_TRUE(Push("a").ok());
  ASSERT_TRUE(Push("b").ok());
  ASSERT_TRUE(Push("delta", 0).ok());
  Sent();
  outbox_.Lost();
  EXPECT_THAT(told_["delta"], ElementsAre("overloaded"));
  EXPECT_EQ(Push("late", 0).reason(), "overloaded");
  EXPECT_TRUE(told_["a"].empty() && told_["b"].empty());
  EXPECT_EQ(outbox_.load().messages, 2u);
}

TEST_F(OutboxTest, OneMessageMoreThanMayWaitIsRefusedAndRoomComesBack) {
  Connect(2);
  for (const char* name : {"a", "b", "c", "d", "e"}) ASSERT_TRUE(Push(name).ok());
  const Status refused = Push("f");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.reason(), "overloaded");
  EXPECT_TRUE(refused.retry_after().has_value());
  const auto packets = Sent();
  EXPECT_EQ(Push("f").reason(), "overloaded") << "what is in flight counts";
  outbox_.Acknowledge(packets[0].packet_id, OkStatus());
  EXPECT_TRUE(Push("f").ok());
  EXPECT_EQ(outbox_.refused(), 2u);
}

TEST_F(OutboxTest, BytesAreBoundedToo) {
  ASSERT_TRUE(Push(std::string(60'000, 'x')).ok());
  EXPECT_EQ(Push(std::string(60'000, 'y')).reason(), "overloaded");
  EXPECT_THAT(Push(std::string(60'000, 'y')).message(), HasSubstr("100000"));
  EXPECT_TRUE(Push(std::string(30'000, 'z')).ok());
  outbox_.Close(Unavailable("draining", ""));
  EXPECT_EQ(outbox_.load().bytes, 0u);
  EXPECT_EQ(outbox_.load().messages, 0u);
}

TEST_F(OutboxTest, AnExpiredMessageIsNotSentEvenWhereTheWindowIsFull) {
  Connect(1);
  ASSERT_TRUE(Push("a").ok());
  Sent();
  Message message = Text("late");
  message.expires = now_ + seconds(3);
  ASSERT_TRUE(Push(std::move(message)).ok());
  EXPECT_THAT(Sent(), IsEmpty());
  now_ += seconds(3);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_THAT(told_["late"], ElementsAre("deadline_exceeded"));
  EXPECT_EQ(outbox_.failed(), 1u);
}

TEST_F(OutboxTest, WhatTheBrokerDoesNotTakeIsToldAndOthersGoOn) {
  BrokerTakes takes;
  takes.retained = false;
  takes.packet_bytes = 100;
  outbox_.Connected(takes);
  Message kept = Text("kept");
  kept.retain = true;
  ASSERT_TRUE(Push(std::move(kept)).ok());
  const std::string large(200, 'x');
  ASSERT_TRUE(Push(large).ok());
  ASSERT_TRUE(Push("ok").ok());
  EXPECT_THAT(SentPayloads(), ElementsAre("ok"));
  EXPECT_THAT(told_["kept"], ElementsAre("not_implemented"));
  EXPECT_THAT(told_[large], ElementsAre("request_too_large"));
}

TEST_F(OutboxTest, TheBrokersVerdictIsHandedOn) {
  Connect(5);
  for (const char* name : {"nobody", "denied"}) ASSERT_TRUE(Push(name).ok());
  const auto packets = Sent();
  outbox_.Acknowledge(packets[0].packet_id, StatusOfPuback(ReasonCode::kNoMatchingSubscribers));
  outbox_.Acknowledge(packets[1].packet_id, StatusOfPuback(ReasonCode::kNotAuthorized));
  EXPECT_THAT(told_["nobody"], ElementsAre("not_found"));
  EXPECT_THAT(told_["denied"], ElementsAre("insufficient_scope"));
  EXPECT_EQ(outbox_.published(), 1u);
  EXPECT_EQ(outbox_.failed(), 1u);
}

// Regression: Mosquitto 2.0 closes the connection of a client that publishes to a forbidden topic.
// One project missing from the broker's access rules interrupted the connection for all,
// repeatedly.
TEST_F(OutboxTest, ATopicThatTheBrokerRefusesIsLeftAloneForAWhile) {
  Connect(5);
  const auto push = [this](const char* payload, const char* topic) {
    Message message = Text(payload);
    message.topic = topic;
    ASSERT_TRUE(Push(std::move(message)).ok());
  };
  push("first", "p/status");
  const auto packets = Sent();
  EXPECT_EQ(outbox_.TopicOf(packets[0].packet_id), "p/status");
  outbox_.LeaveAlone(outbox_.TopicOf(packets[0].packet_id), now_);
  outbox_.Lost();  // without an acknowledgement
  Connect(5);
  push("second", "p/status");
  push("other", "q/status");
  EXPECT_THAT(SentPayloads(), ElementsAre("other"));
  EXPECT_THAT(told_["first"], ElementsAre("insufficient_scope"));
  EXPECT_THAT(told_["second"], ElementsAre("insufficient_scope"));
  now_ += RefusedTopics::kLeftAlone;
  push("third", "p/status");
  EXPECT_THAT(SentPayloads(), ElementsAre("third"));
}

TEST_F(OutboxTest, ClosingTellsEverybodyAndTakesNobody) {
  Connect(1);
  ASSERT_TRUE(Push("sent").ok());
  ASSERT_TRUE(Push("waiting").ok());
  Sent();
  outbox_.Seal();
  EXPECT_EQ(Push("more").reason(), "draining");
  EXPECT_EQ(outbox_.Close(Unavailable("draining", "")), 2u);
  EXPECT_THAT(told_["sent"], ElementsAre("draining"));
  EXPECT_THAT(told_["waiting"], ElementsAre("draining"));
}

TEST_F(OutboxTest, PacketIdsComeRoundWithoutMeetingThoseInFlight) {
  Connect(3);
  ASSERT_TRUE(Push("stays").ok());
  const uint16_t taken = Sent()[0].packet_id;
  for (int i = 0; i < 61'000; ++i) {
    ASSERT_TRUE(outbox_.Push(Text("x"), nullptr).ok());
    const auto packets = Sent();
    ASSERT_EQ(packets.size(), 1u);
    ASSERT_NE(packets[0].packet_id, taken);
    ASSERT_LE(packets[0].packet_id, 60'000) << "above are SUBSCRIBE's";
    ASSERT_TRUE(outbox_.Acknowledge(packets[0].packet_id, OkStatus()));
  }
}

TEST_F(OutboxTest, WhoeverIsToldMayPublish) {
  Connect(5);
  bool told = false;
  ASSERT_TRUE(outbox_
                  .Push(Text("a", 0),
                        [&](const Status&) {
                          told = true;
                          EXPECT_TRUE(Push("b").ok());
                        })
                  .ok());
  EXPECT_THAT(SentPayloads(), ElementsAre("a", "b"));
  EXPECT_TRUE(told);
}

TEST(Puback, TellsWhyInTheWordsOfAllServers) {
  EXPECT_TRUE(StatusOfPuback(ReasonCode::kSuccess).ok());
  EXPECT_EQ(StatusOfPuback(ReasonCode::kNoMatchingSubscribers).reason(), "not_found");
  EXPECT_EQ(StatusOfPuback(ReasonCode::kNotAuthorized).reason(), "insufficient_scope");
  EXPECT_EQ(StatusOfPuback(ReasonCode::kPacketTooLarge).reason(), "request_too_large");
  EXPECT_EQ(StatusOfPuback(ReasonCode::kQuotaExceeded).reason(), "overloaded");
  EXPECT_EQ(StatusOfPuback(ReasonCode::kTopicNameInvalid).reason(), "invalid_value");
  EXPECT_EQ(StatusOfPuback(ReasonCode::kUnspecified).reason(), "internal_error");
}

}  // namespace
}  // namespace tutti::mqtt::bridge
