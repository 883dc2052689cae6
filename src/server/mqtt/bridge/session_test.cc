#include "server/mqtt/bridge/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "amount.h"
#include "base/random.h"
#include "mqtt/codec.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Lines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override { text += std::string(line) + "\n"; }
  std::string text;
};

// A scripted broker: decodes the session's packets, and encodes the broker's.
class SessionTest : public testing::Test {
 protected:
  void Begin(Version version = Version::k5) {
    options_.version = version;
    options_.client_id = "tutti-1";
    options_.keep_alive = seconds(30);
    options_.receive_maximum = 3;
    session_ = std::make_unique<Session>(
        Session::Dependencies{&options_, &credentials_, &outbox_, &inbox_, &log_});
    session_->Open(now_, out_);
  }
  // Up to the last SUBACK.
  void Ready(Version version = Version::k5, const Connack& connack = {}) {
    Begin(version);
    Sent();
    ASSERT_TRUE(Receive(connack).ok());
    for (const Packet& packet : Sent()) {
      if (const auto* subscribe = std::get_if<Subscribe>(&packet)) {
        Suback suback;
        suback.packet_id = subscribe->packet_id;
        suback.reasons.assign(subscribe->subscriptions.size(), ReasonCode::kGrantedQos1);
        ASSERT_TRUE(Receive(suback).ok());
      }
    }
    ASSERT_TRUE(session_->ready());
  }
  std::vector<Packet> Sent() {
    std::vector<Packet> packets;
    FrameSplitter splitter({});
    for (std::string_view rest = out_; !rest.empty();) {
      rest.remove_prefix(splitter.Feed(rest));
      EXPECT_FALSE(splitter.fault().has_value());
      if (!splitter.done()) continue;
      Decoded decoded = Decode(options_.version, splitter.Take());
      EXPECT_TRUE(decoded.ok()) << decoded.fault->why;
      packets.push_back(std::move(decoded.packet));
    }
    out_.clear();
    return packets;
  }
  Status Receive(const Packet& packet) {
    const auto bytes = Encode(options_.version, packet);
    EXPECT_TRUE(bytes.ok());
    FrameSplitter splitter(session_->limits());
    splitter.Feed(*bytes);
    EXPECT_TRUE(splitter.done()) << "the session's limits let nothing else in";
    return session_->On(splitter.Take(), now_, out_);
  }
  static Publish Text(const std::string& topic, uint16_t id, uint8_t qos = 1) {
    Publish packet;
    packet.topic = topic;
    packet.payload = "hello";
    packet.packet_id = id;
    packet.qos = qos;
    return packet;
  }
  std::vector<Packet> Pump() {
    session_->Pump(now_, 1 << 20, out_);
    return Sent();
  }

  TimePoint now_{seconds(1000)};
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
  Logger log_{LogLevel::kInfo, lines_};
  BridgeOptions options_;
  Credentials credentials_;
  Outbox outbox_{{}};
  Inbox inbox_{[] {}};
  std::unique_ptr<Session> session_;
  std::string out_;
  std::vector<Receipt> receipts_;
};

TEST_F(SessionTest, ConnectAsksForASessionThatStaysAndCarriesWillAndLimits) {
  credentials_ = {"llmserver", "s3cret", true};
  options_.will.emplace();
  options_.will->topic = "llm/v1/server/n1/status";
  options_.will->payload = "{\"online\":false}";
  options_.will->qos = 1;
  options_.will->retain = true;
  options_.session_expiry = std::chrono::hours(1);
  Begin();
  const auto packets = Sent();
  ASSERT_EQ(packets.size(), 1u);
  const auto& connect = std::get<Connect>(packets[0]);
  EXPECT_EQ(connect.version, Version::k5);
  EXPECT_FALSE(connect.clean_start);
  EXPECT_EQ(connect.client_id, "tutti-1");
  EXPECT_EQ(connect.keep_alive_s, 30);
  EXPECT_EQ(connect.user_name, "llmserver");
  EXPECT_EQ(connect.password, "s3cret");
  ASSERT_TRUE(connect.will.has_value());
  EXPECT_EQ(connect.will->topic, "llm/v1/server/n1/status");
  EXPECT_TRUE(connect.will->retain);
  EXPECT_EQ(connect.will->qos, 1);
  EXPECT_EQ(connect.properties.session_expiry_s, 3600u);
  EXPECT_EQ(connect.properties.receive_maximum, 3);
  EXPECT_EQ(connect.properties.maximum_packet_size, 1u << 20);
}

TEST_F(SessionTest, WithoutAUserNoneIsSaid) {
  Begin(Version::k311);
  const auto packets = Sent();
  const auto& connect = std::get<Connect>(packets.at(0));
  EXPECT_EQ(connect.version, Version::k311);
  EXPECT_FALSE(connect.user_name.has_value());
  EXPECT_FALSE(connect.password.has_value());
}

TEST_F(SessionTest, EveryFilterIsSubscribedToAfterEachConnect) {
  std::vector<std::string> filters;
  for (int i = 0; i < 70; ++i) {
    filters.push_back("t/" + std::to_string(i));
    ASSERT_TRUE(inbox_.Subscribe(filters.back(), [](Message, Receipt) {}).ok());
  }
  for (int connection = 0; connection < 2; ++connection) {
    Begin();
    Sent();
    ASSERT_TRUE(Receive(Connack{}).ok());
    std::vector<std::string> asked;
    const auto packets = Sent();
    EXPECT_EQ(packets.size(), 3u);
    for (const Packet& packet : packets) {
      for (const Subscription& one : std::get<Subscribe>(packet).subscriptions) {
        EXPECT_EQ(one.qos, 1);
        asked.push_back(one.filter);
      }
    }
    EXPECT_EQ(asked, filters);
    for (const Packet& packet : packets) {
      EXPECT_FALSE(session_->ready());
      Suback suback;
      suback.packet_id = std::get<Subscribe>(packet).packet_id;
      suback.reasons.assign(std::get<Subscribe>(packet).subscriptions.size(),
                            ReasonCode::kGrantedQos1);
      EXPECT_TRUE(Receive(suback).ok());
    }
    EXPECT_TRUE(session_->ready());
    session_->Lost();
  }
}

TEST_F(SessionTest, ARefusedSubscriptionIsLoggedAndTheOthersServe) {
  ASSERT_TRUE(inbox_.Subscribe("mine", [](Message, Receipt) {}).ok());
  ASSERT_TRUE(inbox_.Subscribe("forbidden", [](Message, Receipt) {}).ok());
  Begin();
  Sent();
  ASSERT_TRUE(Receive(Connack{}).ok());
  Suback suback;
  suback.packet_id = std::get<Subscribe>(Sent().at(0)).packet_id;
  suback.reasons = {ReasonCode::kGrantedQos1, ReasonCode::kNotAuthorized};
  EXPECT_TRUE(Receive(suback).ok());
  EXPECT_TRUE(session_->ready());
  EXPECT_THAT(lines_->text, HasSubstr("filter=forbidden reason_code=135"));
}

TEST_F(SessionTest, AWrongPasswordIsToldAsSuchInBothVersions) {
  for (const Version version : {Version::k5, Version::k311}) {
    credentials_ = {"llmserver", "hunter2", true};
    Begin(version);
    Sent();
    Connack connack;
    connack.reason = ReasonCode::kBadUserNameOrPassword;
    const Status status = Receive(connack);
    EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(status.reason(), "broker_credentials");
    EXPECT_THAT(status.message(), HasSubstr("mqtt.password_file"));
    EXPECT_THAT(status.message() + lines_->text, testing::Not(HasSubstr("hunter2")));
    EXPECT_FALSE(session_->connected());
    session_->Lost();
  }
}

TEST_F(SessionTest, OtherRefusalsSayWhatToChange) {
  for (const auto& [code, reason] : std::vector<std::pair<ReasonCode, std::string>>{
           {ReasonCode::kUnsupportedVersion, "broker_version"},
           {ReasonCode::kClientIdNotValid, "broker_client_id"},
           {ReasonCode::kNotAuthorized, "broker_credentials"},
           {ReasonCode::kServerUnavailable, "broker_refused"}}) {
    Begin();
    Sent();
    Connack connack;
    connack.reason = code;
    EXPECT_EQ(Receive(connack).reason(), reason);
    session_->Lost();
  }
}

TEST_F(SessionTest, PubackFollowsTheReceipt) {
  ASSERT_TRUE(
      inbox_
          .Subscribe("in",
                     [this](Message, Receipt receipt) { receipts_.push_back(std::move(receipt)); })
          .ok());
  Ready();
  ASSERT_TRUE(Receive(Text("in", 11)).ok());
  EXPECT_THAT(Pump(), IsEmpty());
  receipts_[0].Accept();
  const auto packets = Pump();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(std::get<Puback>(packets[0]).packet_id, 11);
  EXPECT_EQ(std::get<Puback>(packets[0]).reason, ReasonCode::kSuccess);
}

TEST_F(SessionTest, WhatTheBrokerKeptMayComeBeforeSuback) {
  int got = 0;
  ASSERT_TRUE(
      inbox_.Subscribe("in", [&](Message, Receipt receipt) { ++got, receipt.Accept(); }).ok());
  Begin();
  Sent();
  Connack connack;
  connack.session_present = true;
  ASSERT_TRUE(Receive(connack).ok());
  Sent();
  Publish packet = Text("in", 1);
  packet.dup = true;
  ASSERT_TRUE(Receive(packet).ok());
  EXPECT_EQ(got, 1);
  EXPECT_EQ(Pump().size(), 1u);
  EXPECT_TRUE(session_->resumed());
}

TEST_F(SessionTest, TheBrokersOwnLimitsAreKept) {
  Connack connack;
  connack.properties.receive_maximum = 2;
  connack.properties.maximum_packet_size = 200;
  connack.properties.server_keep_alive_s = 7;
  Ready(Version::k5, connack);
  Message message;
  message.topic = "t";
  message.qos = 1;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(outbox_.Push(message, nullptr).ok());
  EXPECT_EQ(Pump().size(), 2u);
  EXPECT_EQ(session_->due(), now_ + seconds(7));
}

TEST_F(SessionTest, NothingIsPublishedBeforeTheBrokerHasLetUsIn) {
  Message message;
  message.topic = "t";
  message.qos = 1;
  Begin();
  Sent();
  ASSERT_TRUE(outbox_.Push(message, nullptr).ok());
  EXPECT_THAT(Pump(), IsEmpty());
  ASSERT_TRUE(Receive(Connack{}).ok());
  EXPECT_EQ(Pump().size(), 1u);
}

TEST_F(SessionTest, ASilentBrokerIsPingedAndThenGivenUp) {
  Ready();
  now_ += seconds(29);
  EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  EXPECT_THAT(Sent(), IsEmpty());
  now_ += seconds(1);
  EXPECT_EQ(session_->due(), now_);
  EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  EXPECT_TRUE(std::holds_alternative<Pingreq>(Sent().at(0)));
  EXPECT_TRUE(Receive(Pingresp()).ok());
  now_ += seconds(30);
  EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  EXPECT_EQ(Sent().size(), 1u);
  now_ += seconds(10);
  EXPECT_EQ(session_->Tick(now_, true, out_).reason(), "broker_silent");
}

TEST_F(SessionTest, ABrokerWhoseAnswerWaitsBehindMessagesIsAlive) {
  ASSERT_TRUE(inbox_.Subscribe("t", [](Message, Receipt receipt) { receipt.Accept(); }).ok());
  Ready();
  now_ += seconds(30);
  EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  for (int i = 0; i < 5; ++i) {
    now_ += seconds(9);
    EXPECT_TRUE(Receive(Text("t", 0, 0)).ok());
    EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  }
  now_ += seconds(10);
  EXPECT_EQ(session_->Tick(now_, true, out_).reason(), "broker_silent");
}

TEST_F(SessionTest, WhoDoesNotReadDoesNotBlameTheBroker) {
  Ready();
  now_ += seconds(30);
  EXPECT_TRUE(session_->Tick(now_, false, out_).ok());
  now_ += seconds(100);
  EXPECT_TRUE(session_->Tick(now_, false, out_).ok());
  now_ += seconds(9);
  EXPECT_TRUE(session_->Tick(now_, true, out_).ok());
  now_ += seconds(1);
  EXPECT_FALSE(session_->Tick(now_, true, out_).ok());
}

TEST_F(SessionTest, ABrokerThatBreaksTheProtocolIsToldAndLeft) {
  ASSERT_TRUE(
      inbox_
          .Subscribe("#",
                     [this](Message, Receipt receipt) { receipts_.push_back(std::move(receipt)); })
          .ok());
  Suback stray;
  stray.packet_id = 5;
  stray.reasons = {ReasonCode::kSuccess};
  Publish alias = Text("t", 1);
  alias.properties.topic_alias = 1;
  for (const Packet& packet :
       std::vector<Packet>{Text("t", 1, 2), alias, stray, Connack{}, Pingreq()}) {
    Ready();
    Sent();
    const Status status = Receive(packet);
    EXPECT_EQ(status.reason(), "broker_protocol") << PacketTypeName(TypeOf(packet));
    const auto said = Sent();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_TRUE(IsFailure(std::get<Disconnect>(said[0]).reason));
    session_->Lost();
  }
}

// Mosquitto 2.0.11 sends up to its whole window for each acknowledgement that comes in order.
TEST_F(SessionTest, ABrokerThatDoesNotCountIsBorne) {
  ASSERT_TRUE(
      inbox_
          .Subscribe("#",
                     [this](Message, Receipt receipt) { receipts_.push_back(std::move(receipt)); })
          .ok());
  Ready();
  for (uint16_t id = 1; id <= 30; ++id) EXPECT_TRUE(Receive(Text("t", id)).ok());
  for (Receipt& receipt : receipts_) receipt.Accept();
  EXPECT_EQ(Pump().size(), 30u);
}

// Mosquitto 2.0.11 answers so what exceeds its message_size_limit, against the standard.
TEST_F(SessionTest, APubackThatSaysTooLargeTellsThePublisherAndEndsNothing) {
  Ready();
  Message message;
  message.topic = "t";
  message.qos = 1;
  std::string told;
  ASSERT_TRUE(outbox_.Push(message, [&](const Status& status) { told = status.reason(); }).ok());
  const auto id = std::get<Publish>(Pump().at(0)).packet_id;
  Frame frame;
  frame.type = PacketType::kPuback;
  frame.body = {static_cast<char>(id >> 8), static_cast<char>(id & 0xFF), '\x95'};
  EXPECT_TRUE(session_->On(frame, now_, out_).ok());
  EXPECT_EQ(told, "request_too_large");
  frame.body[2] = '\x04';
  EXPECT_FALSE(session_->On(frame, now_, out_).ok()) << "other codes that no PUBACK has are faults";
}

TEST_F(SessionTest, WhateverABrokerSendsEndsTheConnectionAtMost) {
  ASSERT_TRUE(
      inbox_
          .Subscribe("#",
                     [this](Message, Receipt receipt) { receipts_.push_back(std::move(receipt)); })
          .ok());
  Connack connack;
  connack.properties.receive_maximum = 5;
  Suback suback;
  suback.packet_id = 60'001;
  suback.reasons = {ReasonCode::kGrantedQos1};
  Puback puback;
  puback.packet_id = 1;
  puback.reason = ReasonCode::kNoMatchingSubscribers;
  Publish full = Text("a/b", 7);
  full.properties.user = {{"a", "b"}};
  full.properties.message_expiry_s = 3;
  const std::vector<Packet> packets = {connack,    suback,    puback,       full,  Text("t", 0, 0),
                                       Pingresp(), Pingreq(), Disconnect(), Auth()};
  Message message;
  message.topic = "t";
  message.qos = 1;
  Random random(20);
  int ended = 0, heard = 0;
  for (int round = 0; round < support::Amount(20'000, 2'000); ++round) {
    Begin(random.Chance(0.5) ? Version::k5 : Version::k311);
    Sent();
    if (random.Chance(0.9)) {
      ASSERT_TRUE(Receive(Connack{}).ok());
    }
    if (round < 5) {
      EXPECT_TRUE(outbox_.Push(message, nullptr).ok());
    }
    for (int i = 0; i < 4; ++i) {
      const Packet& packet = packets[random.Below(packets.size())];
      const auto encoded = Encode(options_.version, packet);
      if (!encoded.ok()) continue;  // AUTH in 3.1.1
      std::string bytes = *encoded;
      for (uint64_t flips = random.Below(3); flips > 0; --flips) {
        bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
      }
      FrameSplitter splitter(session_->limits());
      splitter.Feed(bytes);
      if (!splitter.done()) continue;
      ++heard;
      if (!session_->On(splitter.Take(), now_, out_).ok()) {
        ++ended;
        break;
      }
      if (random.Chance(0.3)) receipts_.clear();
      session_->Pump(now_, 1 << 20, out_);
    }
    out_.clear();
    session_->Lost();
    receipts_.clear();
  }
  EXPECT_GT(heard, ended);
  EXPECT_GT(ended, 100);
}

TEST_F(SessionTest, AnotherClientWithOurIdIsNamedAsTheCause) {
  Ready();
  Disconnect packet;
  packet.reason = ReasonCode::kSessionTakenOver;
  const Status status = Receive(packet);
  EXPECT_EQ(status.reason(), "broker_taken_over");
  EXPECT_THAT(status.message(), HasSubstr("mqtt.client_id"));
}

TEST_F(SessionTest, GoodbyeIsADisconnectThatSparesTheWill) {
  Ready();
  session_->Goodbye(out_);
  const auto said = Sent();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(std::get<Disconnect>(said[0]).reason, ReasonCode::kSuccess);
}

}  // namespace
}  // namespace tutti::mqtt::bridge
