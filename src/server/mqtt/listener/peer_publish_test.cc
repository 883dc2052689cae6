// Messages from a client: the allowed topics, and the time of the acknowledgement.
#include <gtest/gtest.h>

#include "server/mqtt/listener/testing/world.h"

namespace tutti::mqtt::listener::testing {
namespace {

using std::chrono::seconds;

constexpr const char* kIn = "llm/v1/alice/s/in";

class PeerPublishTest : public ::testing::TestWithParam<Version> {
 protected:
  PeerPublishTest() {
    client_.Connect("c");
    client_.Next<Connack>();
  }
  // In 5.0 DISCONNECT with this reason; in 3.1.1 the connection is closed.
  void ExpectEnded(Client& client, ReasonCode code) {
    EXPECT_TRUE(client.ended);
    EXPECT_EQ(client.why, code);
    if (GetParam() == Version::k5) {
      EXPECT_EQ(client.Next<Disconnect>().reason, code);
    }
    EXPECT_TRUE(client.Quiet());
  }
  // A message of QoS 1 is refused: PUBACK with this reason in 5.0; in 3.1.1 the connection is
  // closed.
  void ExpectRefused(Client& client, ReasonCode code) {
    if (GetParam() == Version::k311) return ExpectEnded(client, code);
    EXPECT_EQ(client.Next<Puback>().reason, code);
    EXPECT_FALSE(client.ended);
  }
  World world_;
  Client client_{world_, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Versions, PeerPublishTest, ::testing::Values(Version::k311, Version::k5),
                         [](const auto& each) {
                           return each.param == Version::k5 ? "V5" : "V311";
                         });

TEST_P(PeerPublishTest, AMessageReachesTheSinkWithWhoPublishedIt) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Publish(kIn, "hello");
  ASSERT_EQ(world_.taken.size(), 1u);
  const Message& message = world_.taken[0].message;
  EXPECT_EQ(message.topic, kIn);
  EXPECT_EQ(message.payload, "hello");
  EXPECT_EQ(message.user, "alice");
  EXPECT_EQ(message.tenant, "t");
  EXPECT_EQ(message.client_id, "c");
  EXPECT_EQ(message.qos, 1);
  EXPECT_FALSE(message.redelivered);
}

TEST_P(PeerPublishTest, WhatTheUserMayNotPublishIsToldToTheHostForItsLog) {
  client_.Publish("llm/v1/bob/s/in");
  EXPECT_EQ(client_.forbidden, std::vector<std::string>{"publish llm/v1/bob/s/in"});
}

TEST_P(PeerPublishTest, ItIsAcknowledgedWhenTheSinkHasAcceptedItAndNotBefore) {
  world_.TakeAll("llm/v1/+/+/in");
  const uint16_t id = client_.Publish(kIn);
  EXPECT_TRUE(client_.Quiet());
  world_.taken[0].receipt.Accept();
  const Puback puback = client_.Next<Puback>();
  EXPECT_EQ(puback.packet_id, id);
  EXPECT_EQ(puback.reason, ReasonCode::kSuccess);
}

TEST_P(PeerPublishTest, AcknowledgementsKeepTheOrderOfTheirMessages) {
  world_.TakeAll("llm/v1/+/+/in");
  const uint16_t first = client_.Publish(kIn), second = client_.Publish(kIn),
                 third = client_.Publish(kIn);
  world_.taken[1].receipt.Accept();
  world_.taken[2].receipt.Accept();
  EXPECT_TRUE(client_.Quiet());
  world_.taken[0].receipt.Accept();
  for (const uint16_t id : {first, second, third}) {
    EXPECT_EQ(client_.Next<Puback>().packet_id, id);
  }
}

TEST_P(PeerPublishTest, WhatASinkRefusesIsNotAcknowledged) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Publish(kIn);
  world_.taken[0].receipt.Refuse(Unavailable("storage_full", "no room"));
  ExpectRefused(client_, ReasonCode::kImplementationSpecific);
}

TEST_P(PeerPublishTest, WhatASinkForgetsIsNotAcknowledged) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Publish(kIn);
  world_.taken.clear();
  ExpectRefused(client_, ReasonCode::kImplementationSpecific);
}

TEST_P(PeerPublishTest, WhatASinkSaysNothingAboutIsNotAcknowledgedInTheEnd) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Publish(kIn);
  client_.Publish(kIn);
  world_.Advance(seconds(30));
  client_.OnTime();
  ExpectRefused(client_, ReasonCode::kUnspecified);
  if (GetParam() == Version::k5) {
    EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kUnspecified);
  }
  world_.taken[0].receipt.Accept();
  EXPECT_TRUE(client_.Quiet()) << "too late";
}

TEST_P(PeerPublishTest, EverySinkMustAccept) {
  world_.TakeAll("llm/v1/+/+/in");
  world_.TakeAll("llm/v1/#");
  client_.Publish(kIn);
  ASSERT_EQ(world_.taken.size(), 2u);
  world_.taken[0].receipt.Accept();
  EXPECT_TRUE(client_.Quiet());
  world_.taken[1].receipt.Accept();
  client_.Next<Puback>();
}

TEST_P(PeerPublishTest, QosZeroIsTakenWithoutAWord) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Send(mqtt::Publish{.topic = kIn});
  ASSERT_EQ(world_.taken.size(), 1u);
  world_.taken[0].receipt.Accept();
  EXPECT_TRUE(client_.Quiet());
}

TEST_P(PeerPublishTest, QosTwoIsNotOffered) {
  client_.Send(mqtt::Publish{.topic = kIn, .qos = 2, .packet_id = 1});
  ExpectEnded(client_, ReasonCode::kQosNotSupported);
}

TEST_P(PeerPublishTest, NothingLeavesTheJail) {
  world_.TakeAll("#");
  for (const char* topic :
       {"llm/v1/bob/s/in", "llm/v1/alice/s/out", "llm/v1/alice/in", "llm/v1/alice/s/t/in",
        "llm/v1/server/n/status", "llm/v1/jobs/p", "other", "$SYS/x", "llm/v1/alice/s/IN"}) {
    Client client(world_, GetParam());
    client.Connect("jailed");
    client.Next<Connack>();
    client.Publish(topic);
    ExpectRefused(client, ReasonCode::kNotAuthorized);
    Client silent(world_, GetParam());
    silent.Connect("silent");
    silent.Next<Connack>();
    silent.Send(mqtt::Publish{.topic = topic});
    ExpectEnded(silent, ReasonCode::kNotAuthorized);
  }
  EXPECT_TRUE(world_.taken.empty());
}

TEST_P(PeerPublishTest, TopicsAreBounded) {
  client_.Publish("llm/v1/alice/" + std::string(512, 's') + "/in");
  ExpectRefused(client_, ReasonCode::kTopicNameInvalid);
  Client deep(world_, GetParam());
  deep.Connect("deep");
  deep.Next<Connack>();
  deep.Publish("a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a");
  ExpectRefused(deep, ReasonCode::kTopicNameInvalid);
}

TEST_P(PeerPublishTest, NothingIsRetainedButTheUsersStatus) {
  client_.Send(mqtt::Publish{.topic = "llm/v1/alice/status", .payload = "{}", .retain = true});
  EXPECT_FALSE(client_.ended);
  EXPECT_EQ(world_.hub.retained(), 1u);
  client_.Send(mqtt::Publish{.topic = kIn, .payload = "x", .retain = true});
  ExpectEnded(client_, ReasonCode::kRetainNotSupported);
  EXPECT_EQ(world_.hub.retained(), 1u);
}

// Regression: sinks got the publisher's retain flag, and ignore retained messages, so a client's
// retained status was dropped.
TEST_P(PeerPublishTest, ASinkTakesALiveMessageAsLiveAlsoWhereItIsToBeRetained) {
  world_.TakeAll("llm/v1/+/status");
  client_.Send(mqtt::Publish{.topic = "llm/v1/alice/status", .payload = "{}", .retain = true});
  ASSERT_EQ(world_.taken.size(), 1u);
  EXPECT_FALSE(world_.taken[0].message.retain);
  EXPECT_EQ(world_.hub.retained(), 1u);
}

TEST_P(PeerPublishTest, WhatIsRetainedIsBounded) {
  world_.limits.retained = 0;
  client_.Send(mqtt::Publish{
      .topic = "llm/v1/alice/status", .payload = "{}", .qos = 1, .retain = true, .packet_id = 1});
  ExpectRefused(client_, ReasonCode::kQuotaExceeded);
}

TEST_P(PeerPublishTest, ARepeatedMessageThatIsNotAcknowledgedYetIsTakenOnce) {
  world_.TakeAll("llm/v1/+/+/in");
  const mqtt::Publish first{.topic = kIn, .payload = "x", .qos = 1, .packet_id = 7};
  mqtt::Publish again = first;
  again.dup = true;
  client_.Send(first);
  client_.Send(again);
  EXPECT_EQ(world_.taken.size(), 1u);
  world_.taken[0].receipt.Accept();
  EXPECT_EQ(client_.Next<Puback>().packet_id, 7);
  EXPECT_TRUE(client_.Quiet());
  client_.Send(again);
  ASSERT_EQ(world_.taken.size(), 2u) << "acknowledged, so it may be another";
  EXPECT_TRUE(world_.taken[1].message.redelivered);
}

TEST_P(PeerPublishTest, AnIdThatIsInUseIsRefused) {
  world_.TakeAll("llm/v1/+/+/in");
  const mqtt::Publish first{.topic = kIn, .payload = "x", .qos = 1, .packet_id = 7};
  client_.Send(first);
  client_.Send(first);
  EXPECT_EQ(world_.taken.size(), 1u);
  if (GetParam() == Version::k311) return ExpectEnded(client_, ReasonCode::kPacketIdInUse);
  world_.taken[0].receipt.Accept();
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kSuccess);
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kPacketIdInUse);
}

TEST_P(PeerPublishTest, NoMoreMessagesAreUnacknowledgedThanTheLimit) {
  world_.TakeAll("llm/v1/+/+/in");
  for (int i = 0; i < 20; ++i) client_.Publish(kIn);
  EXPECT_FALSE(client_.ended);
  if (GetParam() == Version::k311) {
    EXPECT_FALSE(client_.peer().reading()) << "it was not told the limit, so it waits";
    world_.taken[0].receipt.Accept();
    EXPECT_TRUE(client_.peer().reading());
    return;
  }
  client_.Publish(kIn);
  ExpectEnded(client_, ReasonCode::kReceiveMaximumExceeded);
  EXPECT_EQ(world_.taken.size(), 20u);
}

TEST_P(PeerPublishTest, AMessageToNobodyIsAcknowledgedAsSuch) {
  client_.Publish(kIn);
  EXPECT_EQ(client_.Next<Puback>().reason,
            GetParam() == Version::k5 ? ReasonCode::kNoMatchingSubscribers : ReasonCode::kSuccess);
}

TEST_P(PeerPublishTest, PubrelOfNothingIsAnsweredAsSuch) {
  client_.Send(Pubrel{.packet_id = 9});
  const Pubcomp answer = client_.Next<Pubcomp>();
  EXPECT_EQ(answer.packet_id, 9);
  if (GetParam() == Version::k5) {
    EXPECT_EQ(answer.reason, ReasonCode::kPacketIdNotFound);
  }
}

class PeerPublish5Test : public PeerPublishTest {};
INSTANTIATE_TEST_SUITE_P(V5, PeerPublish5Test, ::testing::Values(Version::k5));

TEST_P(PeerPublish5Test, PropertiesOfARequestReachTheSink) {
  world_.TakeAll("llm/v1/+/+/in");
  client_.Publish(kIn, "{}",
                  {.payload_is_text = true,
                   .message_expiry_s = 30,
                   .content_type = "application/json",
                   .response_topic = "llm/v1/alice/s2/out",
                   .correlation_data = std::string("\0\xFF", 2),
                   .user = {{"traceparent", "00-1"}}});
  const Message& message = world_.taken.at(0).message;
  EXPECT_TRUE(message.payload_is_text);
  EXPECT_EQ(message.expires, world_.clock.Now() + seconds(30));
  EXPECT_EQ(message.content_type, "application/json");
  EXPECT_EQ(message.response_topic, "llm/v1/alice/s2/out");
  EXPECT_EQ(message.correlation_data, std::string("\0\xFF", 2));
  ASSERT_EQ(message.user_properties.size(), 1u);
}

TEST_P(PeerPublish5Test, AnswersAreNotAskedForWhereTheClientMayNotBeAnswered) {
  for (const char* topic : {"llm/v1/bob/s/out", "llm/v1/server/n/status", "x"}) {
    client_.Publish(kIn, "x", {.response_topic = topic});
    EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kNotAuthorized) << topic;
  }
}

TEST_P(PeerPublish5Test, PayloadsThatSayTheyAreTextAreLookedAt) {
  client_.Publish(kIn, "\xFF", {.payload_is_text = true});
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kPayloadFormatInvalid);
}

TEST_P(PeerPublish5Test, LongCorrelationDataIsTooLarge) {
  client_.Publish(kIn, "x", {.correlation_data = std::string(64'000, 'x')});
  ExpectEnded(client_, ReasonCode::kPacketTooLarge);
}

TEST_P(PeerPublish5Test, AliasesStandForTheTopicTheyWereSetTo) {
  world_.TakeAll("llm/v1/#");
  client_.Send(mqtt::Publish{.topic = kIn, .properties = {.topic_alias = 16}});
  client_.Send(mqtt::Publish{.properties = {.topic_alias = 16}});
  client_.Send(mqtt::Publish{.topic = "llm/v1/alice/s/ctl", .properties = {.topic_alias = 16}});
  client_.Send(mqtt::Publish{.properties = {.topic_alias = 16}});
  ASSERT_EQ(world_.taken.size(), 4u);
  EXPECT_EQ(world_.taken[1].message.topic, kIn);
  EXPECT_EQ(world_.taken[3].message.topic, "llm/v1/alice/s/ctl");
}

TEST_P(PeerPublish5Test, AnAliasOutsideTheJailIsRefusedEveryTime) {
  client_.Publish("llm/v1/bob/s/in", "x", {.topic_alias = 1});
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kNotAuthorized);
  client_.Publish("", "x", {.topic_alias = 1});
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kNotAuthorized);
}

TEST_P(PeerPublish5Test, AliasesAboveTheMaximumOrNeverSetEndTheConnection) {
  client_.Send(mqtt::Publish{.topic = kIn, .properties = {.topic_alias = 17}});
  ExpectEnded(client_, ReasonCode::kTopicAliasInvalid);
  Client other(world_, Version::k5);
  other.Connect("other");
  other.Next<Connack>();
  other.Send(mqtt::Publish{.properties = {.topic_alias = 1}});
  ExpectEnded(other, ReasonCode::kProtocolError);
}

TEST_P(PeerPublish5Test, AClientNamesNoSubscriptions) {
  client_.Send(mqtt::Publish{.topic = kIn, .properties = {.subscription_ids = {1}}});
  ExpectEnded(client_, ReasonCode::kProtocolError);
}

TEST_P(PeerPublish5Test, ReasonsOfASinkAreToldByTheirCause) {
  world_.TakeAll("llm/v1/+/+/in");
  const std::pair<Status, ReasonCode> causes[] = {
      {Status(StatusCode::kPermissionDenied, "insufficient_scope", ""), ReasonCode::kNotAuthorized},
      {ResourceExhausted("session_queue_full", ""), ReasonCode::kQuotaExceeded},
      {InvalidArgument("invalid_json", ""), ReasonCode::kPayloadFormatInvalid},
      {Internal(""), ReasonCode::kUnspecified},
  };
  for (const auto& [status, code] : causes) {
    client_.Publish(kIn);
    world_.taken.back().receipt.Refuse(status);
    EXPECT_EQ(client_.Next<Puback>().reason, code);
  }
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
