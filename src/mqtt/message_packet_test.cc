#include "mqtt/message_packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::mqtt {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kNow{seconds(1000)};

Message Full() {
  Message message;
  message.topic = "llm/v1/anna/s1/out";
  message.payload = "{\"text\":\"\xC3\xBC\"}";
  message.qos = 1;
  message.retain = true;
  message.payload_is_text = true;
  message.content_type = "application/json";
  message.response_topic = "llm/v1/anna/s1/in";
  message.correlation_data = std::string(
      "\0\xFF"
      "7",
      3);
  message.expires = kNow + seconds(30);
  message.user_properties = {{"seq", "1"}, {"seq", "2"}, {"", ""}};
  return message;
}

TEST(MessagePacket, AllThatAMessageHasComesBack) {
  const Message sent = Full();
  Publish packet = ToPublish(sent, kNow);
  packet.dup = true;
  const Message back = FromPublish(packet, kNow);
  EXPECT_EQ(back.topic, sent.topic);
  EXPECT_EQ(back.payload, sent.payload);
  EXPECT_EQ(back.qos, 1);
  EXPECT_TRUE(back.retain);
  EXPECT_TRUE(back.payload_is_text);
  EXPECT_EQ(back.content_type, sent.content_type);
  EXPECT_EQ(back.response_topic, sent.response_topic);
  EXPECT_EQ(back.correlation_data, sent.correlation_data);
  EXPECT_EQ(back.expires, sent.expires);
  EXPECT_EQ(back.user_properties, sent.user_properties);
  EXPECT_TRUE(back.redelivered);
  EXPECT_EQ(back.user, "") << "a broker does not tell who published";
}

TEST(MessagePacket, WhatAMessageLacksIsNoProperty) {
  Message bare;
  bare.topic = "t";
  EXPECT_EQ(ToPublish(bare, kNow).properties, Properties());
  bare.correlation_data = "";
  EXPECT_EQ(ToPublish(bare, kNow).properties.correlation_data, "") << "empty is not absent";
}

TEST(MessagePacket, ExpiryIsTheTimeLeftRoundedUp) {
  Message message = Full();
  const auto expiry = [&](Duration left) {
    message.expires = kNow + left;
    return ToPublish(message, kNow).properties.message_expiry_s;
  };
  EXPECT_EQ(expiry(seconds(30)), 30u);
  EXPECT_EQ(expiry(milliseconds(29'001)), 30u);
  EXPECT_EQ(expiry(milliseconds(1)), 1u) << "0 would say that it has expired";
  message.expires = TimePoint::max();
  EXPECT_EQ(ToPublish(message, kNow).properties.message_expiry_s, std::nullopt);
}

TEST(MessagePacket, WhatMqttCannotExpressIsRefusedByTheFieldsName) {
  const std::string long_text(65'536, 'x');
  struct Case {
    const char* field;
    std::function<void(Message&)> break_it;
  };
  const std::vector<Case> cases = {
      {"topic", [](Message& m) { m.topic = ""; }},
      {"topic", [](Message& m) { m.topic = "a/+"; }},
      {"topic", [](Message& m) { m.topic = "a/#"; }},
      {"topic", [](Message& m) { m.topic = std::string("a\0b", 3); }},
      {"topic", [](Message& m) { m.topic = "\xFF"; }},
      {"topic", [&](Message& m) { m.topic = long_text; }},
      {"response_topic", [](Message& m) { m.response_topic = "a/#"; }},
      {"response_topic", [](Message& m) { m.response_topic = "\xC3"; }},
      {"content_type", [](Message& m) { m.content_type = "\xC3"; }},
      {"content_type", [&](Message& m) { m.content_type = long_text; }},
      {"correlation_data", [&](Message& m) { m.correlation_data = long_text; }},
      {"user_properties",
       [](Message& m) {
         m.user_properties.assign(65, {"a", "b"});
       }},
      {"user_properties",
       [](Message& m) {
         m.user_properties = {{"a", "\xFF"}};
       }},
      {"user_properties",
       [&](Message& m) {
         m.user_properties = {{long_text, "b"}};
       }},
      {"payload", [](Message& m) { m.payload = "\xFF"; }},
      {"qos", [](Message& m) { m.qos = 2; }},
  };
  EXPECT_TRUE(CheckMessage(Full(), 1 << 20).ok());
  for (const Case& one : cases) {
    Message message = Full();
    one.break_it(message);
    const Status status = CheckMessage(message, 1 << 20);
    EXPECT_EQ(status.reason(), "invalid_value") << one.field;
    EXPECT_EQ(status.param(), one.field);
  }
}

TEST(MessagePacket, AMessageIsAsLargeAsItsPacketMayBe) {
  Message message = Full();
  message.payload.assign((1 << 20) - 400, 'x');
  EXPECT_TRUE(CheckMessage(message, 1 << 20).ok());
  message.payload.assign(1 << 20, 'x');
  const Status status = CheckMessage(message, 1 << 20);
  EXPECT_EQ(status.reason(), "request_too_large");
  EXPECT_EQ(status.excess()->most, 1 << 20);
}

}  // namespace
}  // namespace tutti::mqtt
