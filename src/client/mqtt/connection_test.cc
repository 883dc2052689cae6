#include "client/mqtt/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/mqtt/testing/scripted_server.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::ScriptedServer;

class MqttConnectionTest : public ::testing::Test {
 protected:
  MqttConnectionTest() { options_.session.login.client_id = "c"; }
  Result<std::unique_ptr<MqttConnection>> Open() {
    return MqttConnection::Over(server_.NewTransport(), options_, server_.clock);
  }
  // Sends `count` messages at once; returns the time at which each was sent.
  std::vector<TimePoint> Sent(int count) {
    auto connection = Open();
    EXPECT_TRUE(connection.ok()) << connection.status();
    for (int i = 0; i < count; ++i)
      EXPECT_TRUE((*connection)->Send({"t", std::to_string(i), ""}).ok());
    EXPECT_TRUE((*connection)->Flush(seconds(60)).ok());
    std::vector<TimePoint> times;
    for (const auto& each : server_.heard) {
      EXPECT_EQ(each.message.payload, std::to_string(times.size())) << "in their order";
      times.push_back(each.at);
    }
    return times;
  }

  ScriptedServer server_;
  MqttOptions options_;
};

TEST_F(MqttConnectionTest, TwentyQueuedSendsLeaveATenthOfASecondApart) {
  const std::vector<TimePoint> times = Sent(20);
  ASSERT_EQ(times.size(), 20u);
  for (size_t i = 1; i < times.size(); ++i) {
    EXPECT_GE(times[i] - times[i - 1], milliseconds(100));
    EXPECT_LE(times[i] - times[i - 1], milliseconds(101)) << "and no longer than it must be";
  }
}

TEST_F(MqttConnectionTest, WithAnIntervalOfZeroTheyLeaveAtOnce) {
  options_.session.min_interval = Duration(0);
  const std::vector<TimePoint> times = Sent(20);
  ASSERT_EQ(times.size(), 20u);
  EXPECT_EQ(times.front(), times.back());
}

TEST_F(MqttConnectionTest, NoMoreAreUnderwayThanTheServerTakes) {
  options_.session.min_interval = Duration(0);
  server_.connack.properties.receive_maximum = 3;
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  server_.acknowledges = false;
  for (int i = 0; i < 9; ++i) ASSERT_TRUE((*connection)->Send({"t", "x", ""}).ok());
  for (size_t allowed = 3; allowed <= 9; ++allowed) {
    ASSERT_TRUE((*connection)->Receive(server_.clock.Now() + seconds(1)).ok());
    ASSERT_EQ(server_.heard.size(), allowed);
    server_.Acknowledge(server_.heard[allowed - 3].message);
  }
}

TEST_F(MqttConnectionTest, AfterBeingToldToWaitNothingLeavesBefore) {
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  const TimePoint until = server_.clock.Now() + milliseconds(1200);
  (*connection)->HoldUntil(until);
  ASSERT_TRUE((*connection)->Send({"t", "x", ""}).ok());
  ASSERT_TRUE((*connection)->Flush(seconds(10)).ok());
  ASSERT_EQ(server_.heard.size(), 1u);
  EXPECT_EQ(server_.heard[0].at, until);
}

TEST_F(MqttConnectionTest, TooManyWaitingAreRefused) {
  options_.session.max_waiting = 5;
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE((*connection)->Send({"t", "x", ""}).ok());
  EXPECT_EQ((*connection)->Send({"t", "x", ""}).reason(), "overloaded");
}

TEST_F(MqttConnectionTest, ALoginThatIsRefusedSaysSo) {
  server_.connack.reason = mqtt::ReasonCode::kBadUserNameOrPassword;
  EXPECT_EQ(Open().status().code(), StatusCode::kUnauthenticated);
  server_.connack.reason = mqtt::ReasonCode::kServerBusy;
  EXPECT_THAT(Open().status().message(), HasSubstr("137"));
}

TEST_F(MqttConnectionTest, ASubscriptionThatIsRefusedSaysSo) {
  server_.subscribes_as = mqtt::ReasonCode::kNotAuthorized;
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  EXPECT_EQ((*connection)->Subscribe("x/y").reason(), "insufficient_scope");
}

TEST_F(MqttConnectionTest, ARefusedMessageComesBackWithTheReason) {
  server_.acknowledges_as = mqtt::ReasonCode::kNotAuthorized;
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE((*connection)->Send({"t", "x", ""}).ok());
  const auto arrived = (*connection)->Receive(server_.clock.Now() + seconds(1));
  ASSERT_TRUE(arrived.ok()) << arrived.status();
  ASSERT_EQ(arrived->refused.size(), 1u);
  EXPECT_EQ(arrived->refused[0].first.payload, "x");
  EXPECT_EQ(arrived->refused[0].second.reason(), "insufficient_scope");
}

TEST_F(MqttConnectionTest, WhatCameBeforeTheConnectionBrokeIsGivenFirst) {
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  server_.Send("t", "last words", "");
  server_.HangUp();
  const auto arrived = (*connection)->Receive(server_.clock.Now() + seconds(1));
  ASSERT_TRUE(arrived.ok()) << arrived.status();
  EXPECT_EQ(arrived->messages.at(0).payload, "last words");
  EXPECT_EQ((*connection)->Receive(server_.clock.Now() + seconds(1)).status().reason(),
            "unreachable");
}

TEST_F(MqttConnectionTest, ASilentConnectionIsPingedAndOneThatDoesNotAnswerGivenUp) {
  options_.session.login.keep_alive_s = 20;
  server_.answers_pings = false;
  auto connection = Open();
  ASSERT_TRUE(connection.ok());
  const auto arrived = (*connection)->Receive(server_.clock.Now() + seconds(60));
  EXPECT_EQ(arrived.status().reason(), "connection_closed");
  EXPECT_TRUE(std::holds_alternative<mqtt::Pingreq>(server_.packets.back()));
}

TEST_F(MqttConnectionTest, AServerThatBreaksTheProtocolIsLeft) {
  for (const mqtt::Packet& packet : std::vector<mqtt::Packet>{
           mqtt::Connack(), mqtt::Pingreq(), mqtt::Puback{7, mqtt::ReasonCode::kSuccess, {}}}) {
    auto connection = Open();
    ASSERT_TRUE(connection.ok());
    server_.Send(packet);
    EXPECT_EQ((*connection)->Receive(server_.clock.Now() + seconds(1)).status().reason(),
              "bad_response");
  }
}

TEST_F(MqttConnectionTest, ItStopsWhenToldAndSaysGoodbye) {
  {
    auto connection = Open();
    ASSERT_TRUE(connection.ok());
    int asked = 0;
    const auto arrived = (*connection)->Receive(server_.clock.Now() + seconds(600), [&asked] {
      return ++asked > 3;
    });
    EXPECT_EQ(arrived.status().reason(), "cancelled");
  }
  EXPECT_EQ(server_.goodbyes, 1);
}

TEST_F(MqttConnectionTest, APasswordForAnotherMachineNeedsTls) {
  options_.address = {"192.0.2.1", 1883, false};
  options_.session.login.user = "ada";
  options_.session.login.password = "hunter2";
  const Status status = MqttConnection::Open(options_).status();
  EXPECT_THAT(status.message(), HasSubstr("mqtts://192.0.2.1"));
  EXPECT_EQ(status.message().find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace tutti::client
