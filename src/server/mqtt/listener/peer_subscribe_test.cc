// Messages to a client: the allowed filters, deliveries, and overload.
#include <gtest/gtest.h>

#include "server/mqtt/listener/testing/world.h"

namespace tutti::mqtt::listener::testing {
namespace {

using std::chrono::seconds;

class PeerSubscribeTest : public ::testing::TestWithParam<Version> {
 protected:
  PeerSubscribeTest() {
    client_.Connect("c");
    client_.Next<Connack>();
  }
  bool v5() const { return GetParam() == Version::k5; }
  ReasonCode Failure(ReasonCode code) const { return v5() ? code : ReasonCode::kUnspecified; }
  World world_;
  Client client_{world_, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Versions, PeerSubscribeTest, ::testing::Values(Version::k311, Version::k5),
                         [](const auto& each) {
                           return each.param == Version::k5 ? "V5" : "V311";
                         });

TEST_P(PeerSubscribeTest, ASubscriberGetsWhatIsPublishedAtTheLowerQos) {
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/+/out", 1), ReasonCode::kGrantedQos1);
  EXPECT_EQ(world_.Publish({.topic = kOut, .payload = "hint", .qos = 0}), 1u);
  const mqtt::Publish hint = client_.Next<mqtt::Publish>();
  EXPECT_EQ(hint.payload, "hint");
  EXPECT_EQ(hint.qos, 0);
  world_.Publish({.topic = kOut, .payload = "final", .qos = 1});
  const mqtt::Publish final = client_.Next<mqtt::Publish>();
  EXPECT_EQ(final.qos, 1);
  EXPECT_NE(final.packet_id, 0);
  EXPECT_FALSE(final.dup || final.retain);
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/+/out", 0), ReasonCode::kSuccess);
  world_.Publish({.topic = kOut, .payload = "final", .qos = 1});
  EXPECT_EQ(client_.Next<mqtt::Publish>().qos, 0);
}

TEST_P(PeerSubscribeTest, QosTwoIsGrantedAsOne) {
  EXPECT_EQ(client_.Subscribe(kOut, 2), ReasonCode::kGrantedQos1);
}

TEST_P(PeerSubscribeTest, NobodyReadsOutsideTheJailWhateverTheWildcard) {
  for (const char* filter :
       {"#", "+/#", "llm/#", "llm/v1/#", "llm/v1/+/s/out", "llm/v1/+/+/out", "llm/v1/bob/#",
        "llm/v1/bob/s/out", "+/v1/alice/#", "$SYS/#", "llm/v1/alice2/#", "llm/v1/jobs/p"}) {
    EXPECT_EQ(client_.Subscribe(filter), Failure(ReasonCode::kNotAuthorized)) << filter;
    EXPECT_EQ(client_.forbidden.back(), std::string("subscribe ") + filter);
  }
  EXPECT_EQ(world_.Publish({.topic = "llm/v1/bob/s/out", .payload = "secret", .qos = 1}), 0u);
  EXPECT_TRUE(client_.Quiet());
  for (const char* filter : {"llm/v1/alice/#", "llm/v1/alice/+/+", "llm/v1/server/#"}) {
    EXPECT_EQ(client_.Subscribe(filter), ReasonCode::kGrantedQos1) << filter;
  }
}

TEST_P(PeerSubscribeTest, SharedSubscriptionsAreNotOffered) {
  EXPECT_EQ(client_.Subscribe("$share/g/llm/v1/alice/s/out"),
            Failure(ReasonCode::kSharedSubscriptionsNotSupported));
  EXPECT_EQ(client_.Subscribe("$share/g/#"), Failure(ReasonCode::kSharedSubscriptionsNotSupported));
}

TEST_P(PeerSubscribeTest, SubscriptionsAreBounded) {
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(client_.Subscribe("llm/v1/alice/" + std::to_string(i)), ReasonCode::kGrantedQos1);
  }
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/64"), Failure(ReasonCode::kQuotaExceeded));
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/63"), ReasonCode::kGrantedQos1) << "one that it has";
  client_.Send(Unsubscribe{.packet_id = 5, .filters = {"llm/v1/alice/0"}});
  client_.Next<Unsuback>();
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/64"), ReasonCode::kGrantedQos1);
  EXPECT_EQ(client_.Subscribe("llm/v1/alice/" + std::string(512, 'x')),
            Failure(ReasonCode::kTopicFilterInvalid));
}

TEST_P(PeerSubscribeTest, EachFilterOfAPacketIsAnsweredInItsPlace) {
  client_.Send(mqtt::Subscribe{.packet_id = 7,
                               .subscriptions = {{.filter = "llm/v1/alice/#", .qos = 1},
                                                 {.filter = "llm/v1/bob/#", .qos = 1},
                                                 {.filter = "llm/v1/server/#", .qos = 0}}});
  const Suback answer = client_.Next<Suback>();
  EXPECT_EQ(answer.packet_id, 7);
  EXPECT_EQ(answer.reasons,
            (std::vector<ReasonCode>{ReasonCode::kGrantedQos1, Failure(ReasonCode::kNotAuthorized),
                                     ReasonCode::kSuccess}));
}

TEST_P(PeerSubscribeTest, AfterUnsubscribingNothingComes) {
  client_.Subscribe(kOut);
  client_.Send(Unsubscribe{.packet_id = 5, .filters = {kOut, "never"}});
  const Unsuback answer = client_.Next<Unsuback>();
  EXPECT_EQ(answer.packet_id, 5);
  if (v5()) {
    EXPECT_EQ(answer.reasons,
              (std::vector<ReasonCode>{ReasonCode::kSuccess, ReasonCode::kNoSubscriptionExisted}));
  }
  EXPECT_EQ(world_.Publish({.topic = kOut, .qos = 1}), 0u);
}

TEST_P(PeerSubscribeTest, OverlappingFiltersGiveOneCopy) {
  client_.Subscribe("llm/v1/alice/#", 0);
  client_.Subscribe("llm/v1/alice/+/out", 1);
  EXPECT_EQ(world_.Publish({.topic = kOut, .qos = 1}), 1u);
  EXPECT_EQ(client_.Next<mqtt::Publish>().qos, 1);
  EXPECT_TRUE(client_.Quiet());
}

TEST_P(PeerSubscribeTest, ClientsOfOneUserHearEachOtherAndOthersDoNot) {
  Client second(world_, GetParam()), bob(world_, GetParam());
  second.Connect("second");
  second.Next<Connack>();
  bob.Connect("c", "bob");
  bob.Next<Connack>();
  EXPECT_FALSE(client_.ended) << "the same id of another user takes nothing over";
  client_.Subscribe("llm/v1/alice/#");
  bob.Subscribe("llm/v1/bob/#");
  second.Publish("llm/v1/alice/s/in", "hello");
  EXPECT_EQ(client_.Next<mqtt::Publish>().payload, "hello");
  EXPECT_TRUE(bob.Quiet());
  EXPECT_EQ(second.Next<Puback>().reason, ReasonCode::kSuccess);
}

TEST_P(PeerSubscribeTest, RetainedMessagesAreSentToWhoSubscribesLater) {
  world_.Publish({.topic = "llm/v1/server/n/status", .payload = "old", .qos = 1, .retain = true});
  world_.Publish({.topic = "llm/v1/server/n/status", .payload = "new", .qos = 1, .retain = true});
  world_.Publish({.topic = "llm/v1/server/m/status", .payload = "m", .qos = 1, .retain = true});
  world_.Publish({.topic = "llm/v1/server/m/status", .payload = "", .qos = 1, .retain = true});
  client_.Subscribe("llm/v1/server/#");
  const mqtt::Publish status = client_.Next<mqtt::Publish>();
  EXPECT_EQ(status.payload, "new");
  EXPECT_TRUE(status.retain);
  EXPECT_TRUE(client_.Quiet()) << "an empty payload takes it back";
  world_.Publish({.topic = "llm/v1/server/n/status", .payload = "live", .retain = true});
  EXPECT_FALSE(client_.Next<mqtt::Publish>().retain) << "to who has subscribed already";
}

TEST_P(PeerSubscribeTest, AtMostTwentyAreUnacknowledged) {
  client_.Subscribe(kOut);
  for (int i = 0; i < 30; ++i) {
    world_.Publish({.topic = kOut, .payload = std::to_string(i), .qos = 1});
  }
  ASSERT_EQ(client_.received.size(), 20u);
  const uint16_t first = client_.Next<mqtt::Publish>().packet_id;
  client_.received.clear();
  client_.Send(Puback{.packet_id = 12345});
  EXPECT_TRUE(client_.Quiet()) << "of an id that was not sent";
  client_.Send(Puback{.packet_id = first});
  EXPECT_EQ(client_.Next<mqtt::Publish>().payload, "20");
  EXPECT_TRUE(client_.Quiet());
}

TEST_P(PeerSubscribeTest, HintsPassWhatWaitsForAcknowledgements) {
  client_.Subscribe(kOut);
  for (int i = 0; i < 21; ++i) world_.Publish({.topic = kOut, .qos = 1});
  client_.received.clear();
  world_.Publish({.topic = kOut, .payload = "hint"});
  EXPECT_EQ(client_.Next<mqtt::Publish>().payload, "hint");
}

TEST_P(PeerSubscribeTest, AReaderThatStopsLosesHintsFirstAndThenIsDisconnected) {
  client_.Subscribe(kOut);
  client_.stuck = true;
  const std::string kilobyte(1024, 'x');
  for (int i = 0; i < 200; ++i) world_.Publish({.topic = kOut, .payload = kilobyte});
  EXPECT_FALSE(client_.ended) << "hints may be lost";
  EXPECT_LE(client_.peer().session()->outbox.bytes(), 64u << 10);
  EXPECT_GT(client_.peer().session()->outbox.dropped(), 100u);
  EXPECT_FALSE(client_.peer().reading()) << "who does not read is not read from";
  int sent = 0;
  while (!client_.ended && sent < 2000) {
    world_.Publish({.topic = kOut, .payload = "final", .qos = 1});
    ++sent;
  }
  EXPECT_EQ(client_.why, ReasonCode::kQuotaExceeded);
  EXPECT_GT(sent, 990);
  EXPECT_LT(sent, 1100);
  EXPECT_EQ(world_.hub.sessions(), 0u) << "nothing is kept of it";
}

TEST_P(PeerSubscribeTest, ASlowReaderGetsWhatWaitsWhenItReadsAgain) {
  client_.Subscribe(kOut);
  client_.stuck = true;
  const std::string large(20'000, 'x');
  for (int i = 0; i < 3; ++i) world_.Publish({.topic = kOut, .payload = large, .qos = 1});
  EXPECT_EQ(client_.received.size(), 1u);
  client_.Drain();
  EXPECT_EQ(client_.received.size(), 2u);
  client_.stuck = false;
  client_.Drain();
  EXPECT_EQ(client_.received.size(), 3u);
}

class PeerSubscribe5Test : public PeerSubscribeTest {};
INSTANTIATE_TEST_SUITE_P(V5, PeerSubscribe5Test, ::testing::Values(Version::k5));

TEST_P(PeerSubscribe5Test, AnEventCarriesItsProperties) {
  client_.Subscribe({.filter = "llm/v1/alice/#", .qos = 1}, {.subscription_ids = {7}});
  client_.Subscribe({.filter = kOut, .qos = 1}, {.subscription_ids = {9}});
  world_.Publish({.topic = kOut,
                  .payload = "{}",
                  .qos = 1,
                  .payload_is_text = true,
                  .content_type = "application/json",
                  .correlation_data = "id",
                  .expires = world_.clock.Now() + seconds(30),
                  .user_properties = {{"seq", "4"}}});
  const Properties got = client_.Next<mqtt::Publish>().properties;
  EXPECT_EQ(got.payload_is_text, true);
  EXPECT_EQ(got.content_type, "application/json");
  EXPECT_EQ(got.correlation_data, "id");
  EXPECT_EQ(got.message_expiry_s, 30u);
  EXPECT_EQ(got.user, (std::vector<UserProperty>{{"seq", "4"}}));
  EXPECT_EQ(got.subscription_ids, (std::vector<uint32_t>{7, 9}));
  EXPECT_FALSE(got.response_topic);
}

TEST_P(PeerSubscribe5Test, WhatExpiresWhileItWaitsIsNotSentAndWhatIsLeftIsTold) {
  client_.Subscribe(kOut);
  client_.stuck = true;
  world_.Publish({.topic = kOut, .payload = std::string(20'000, 'x')});
  client_.received.clear();
  world_.Publish(
      {.topic = kOut, .payload = "short", .qos = 1, .expires = world_.clock.Now() + seconds(5)});
  world_.Publish(
      {.topic = kOut, .payload = "long", .qos = 1, .expires = world_.clock.Now() + seconds(60)});
  world_.Advance(seconds(5));
  client_.stuck = false;
  client_.Drain();
  const mqtt::Publish left = client_.Next<mqtt::Publish>();
  EXPECT_EQ(left.payload, "long");
  EXPECT_EQ(left.properties.message_expiry_s, 55u);
  EXPECT_TRUE(client_.Quiet());
}

TEST_P(PeerSubscribe5Test, AClientsOwnReceiveMaximumHolds) {
  Client client(world_, Version::k5);
  client.Connect(mqtt::Connect{.client_id = "two", .properties = {.receive_maximum = 2}});
  client.Next<Connack>();
  client.Subscribe(kOut);
  for (int i = 0; i < 5; ++i) world_.Publish({.topic = kOut, .qos = 1});
  EXPECT_EQ(client.received.size(), 2u);
}

TEST_P(PeerSubscribe5Test, AClientsMaximumPacketSizeHolds) {
  Client client(world_, Version::k5);
  client.Connect(mqtt::Connect{.client_id = "small", .properties = {.maximum_packet_size = 100}});
  client.Next<Connack>();
  client.Subscribe(kOut);
  for (int i = 0; i < 50; ++i) {
    world_.Publish({.topic = kOut, .payload = std::string(200, 'x'), .qos = 1});
  }
  EXPECT_TRUE(client.Quiet());
  world_.Publish({.topic = kOut, .payload = "fits", .qos = 1});
  EXPECT_EQ(client.Next<mqtt::Publish>().payload, "fits") << "what was left out holds up nothing";
}

TEST_P(PeerSubscribe5Test, NoLocalLeavesOutWhatTheClientItselfPublished) {
  client_.Subscribe(Subscription{.filter = "llm/v1/alice/#", .qos = 1, .no_local = true});
  client_.Publish("llm/v1/alice/s/in");
  EXPECT_EQ(client_.Next<Puback>().reason, ReasonCode::kNoMatchingSubscribers);
  world_.Publish({.topic = "llm/v1/alice/s/in"});
  client_.Next<mqtt::Publish>();
}

TEST_P(PeerSubscribe5Test, RetainHandlingAndRetainAsPublished) {
  const std::string topic = "llm/v1/server/n/status";
  world_.Publish({.topic = topic, .payload = "s", .retain = true});
  client_.Subscribe(Subscription{.filter = topic, .retain_handling = 2});
  EXPECT_TRUE(client_.Quiet()) << "2: none";
  client_.Subscribe(Subscription{.filter = topic, .retain_handling = 1});
  EXPECT_TRUE(client_.Quiet()) << "1: not again";
  client_.Subscribe(Subscription{.filter = topic, .retain_as_published = true});
  client_.Next<mqtt::Publish>();
  world_.Publish({.topic = topic, .payload = "t", .retain = true});
  EXPECT_TRUE(client_.Next<mqtt::Publish>().retain);
  client_.Subscribe(Subscription{.filter = "llm/v1/server/#", .retain_handling = 1});
  EXPECT_EQ(client_.Next<mqtt::Publish>().payload, "t") << "1: a new one";
}

TEST_P(PeerSubscribe5Test, ARetainedMessageThatHasExpiredIsForgotten) {
  world_.Publish({.topic = "llm/v1/server/n/status",
                  .payload = "s",
                  .retain = true,
                  .expires = world_.clock.Now() + seconds(60)});
  world_.Advance(seconds(60));
  client_.Subscribe("llm/v1/server/#");
  EXPECT_TRUE(client_.Quiet());
  EXPECT_EQ(world_.hub.retained(), 0u);
}

}  // namespace
}  // namespace tutti::mqtt::listener::testing
