// Conformance with MQTT 3.1.1, as a table. The order is that of the standard's chapter 3.
#include "mqtt/testing/conformance_tables.h"

namespace tutti::mqtt::testing {
namespace {
namespace mqtt_311 {

constexpr auto kMalformed = ReasonCode::kMalformedPacket;
constexpr auto kProtocol = ReasonCode::kProtocolError;
constexpr auto kVersion = ReasonCode::kUnsupportedVersion;
constexpr auto kFilter = ReasonCode::kTopicFilterInvalid;
constexpr auto kTopic = ReasonCode::kTopicNameInvalid;
constexpr auto k311 = Version::k311;

std::string Begin(unsigned flags, unsigned level = 4) {
  return Str("MQTT") + Hex({level, flags, 0, 60});
}

std::vector<ConformanceCase> Connects() {
  const Connect plain{.version = k311, .keep_alive_s = 60, .client_id = "c"};
  Connect all = plain;
  all.clean_start = false;
  all.user_name = "u";
  all.password = "p\xFF";
  all.will = Will{.topic = "w", .payload = "gone", .qos = 1, .retain = true};
  Connect named = plain;
  named.user_name = "";
  Connect empty = plain;
  empty.client_id = "";
  return {
      {"CONNECT", Pkt(0x10, Begin(0x02) + Str("c")), plain},
      {"CONNECT without a client id", Pkt(0x10, Begin(0x02) + Str("")), empty},
      {"CONNECT with everything",
       Pkt(0x10, Begin(0xEC) + Str("c") + Str("w") + Str("gone") + Str("u") + Str("p\xFF")), all},
      {"CONNECT with an empty user name", Pkt(0x10, Begin(0x82) + Str("c") + Str("")), named},
      {"CONNECT with a long remaining length",
       Hex({0x10, 0x8D, 0x80, 0x00}) + Begin(0x02) + Str("c"), plain, false},
      {"CONNECT with a remaining length of five bytes", Hex({0x10, 0x80, 0x80, 0x80, 0x80, 0x01}),
       kMalformed},
      {"CONNECT of 256 MiB", Hex({0x10, 0xFF, 0xFF, 0xFF, 0x7F}), ReasonCode::kPacketTooLarge},
      {"CONNECT with fixed header flags", Pkt(0x11, Begin(0x02) + Str("c")), kMalformed},
      {"CONNECT of 3.1", Pkt(0x10, Str("MQIsdp") + Hex({3, 2, 0, 60}) + Str("c")), kVersion},
      {"CONNECT of another protocol", Pkt(0x10, Str("MQTX") + Hex({4, 2, 0, 60}) + Str("c")),
       kVersion},
      {"CONNECT of a name in lower case", Pkt(0x10, Str("mqtt") + Hex({4, 2, 0, 60}) + Str("c")),
       kVersion},
      {"CONNECT of level 9", Pkt(0x10, Begin(0x02, 9) + Str("c")), kVersion},
      {"CONNECT of a bridge's level", Pkt(0x10, Begin(0x02, 0x84) + Str("c")), kVersion},
      {"CONNECT with the reserved flag", Pkt(0x10, Begin(0x03) + Str("c")), kMalformed},
      {"CONNECT with Will QoS and no Will", Pkt(0x10, Begin(0x0A) + Str("c")), kMalformed},
      {"CONNECT with Will retain and no Will", Pkt(0x10, Begin(0x22) + Str("c")), kMalformed},
      {"CONNECT with Will QoS 3", Pkt(0x10, Begin(0x1E) + Str("c") + Str("w") + Str("")),
       kMalformed},
      {"CONNECT with a password alone", Pkt(0x10, Begin(0x42) + Str("c") + Str("p")), kMalformed},
      {"CONNECT with a wildcard in the Will's topic",
       Pkt(0x10, Begin(0x06) + Str("c") + Str("w/#") + Str("")), kTopic},
      {"CONNECT with an empty Will topic", Pkt(0x10, Begin(0x06) + Str("c") + Str("") + Str("")),
       kTopic},
      {"CONNECT that is empty", Pkt(0x10), kMalformed},
      {"CONNECT without a password that it announces", Pkt(0x10, Begin(0xC2) + Str("c") + Str("u")),
       kMalformed},
      {"CONNECT with bytes behind it", Pkt(0x10, Begin(0x02) + Str("c") + "x"), kMalformed},
      {"CONNECT with U+0000 in the client id",
       Pkt(0x10, Begin(0x02) + Str(std::string_view("\0", 1))), kMalformed},
      {"CONNECT with a surrogate in the client id", Pkt(0x10, Begin(0x02) + Str("\xED\xA0\x80")),
       kMalformed},
      {"CONNECT with an overlong form", Pkt(0x10, Begin(0x02) + Str("\xC0\xAF")), kMalformed},
      {"CONNECT with bytes that are no UTF-8", Pkt(0x10, Begin(0x82) + Str("c") + Str("\xFF")),
       kMalformed},
      {"CONNACK", Pkt(0x20, Hex({0, 0})), Connack{}},
      {"CONNACK with a session", Pkt(0x20, Hex({1, 0})), Connack{.session_present = true}},
      {"CONNACK 1", Pkt(0x20, Hex({0, 1})), Connack{.reason = kVersion}},
      {"CONNACK 2", Pkt(0x20, Hex({0, 2})), Connack{.reason = ReasonCode::kClientIdNotValid}},
      {"CONNACK 3", Pkt(0x20, Hex({0, 3})), Connack{.reason = ReasonCode::kServerUnavailable}},
      {"CONNACK 4", Pkt(0x20, Hex({0, 4})), Connack{.reason = ReasonCode::kBadUserNameOrPassword}},
      {"CONNACK 5", Pkt(0x20, Hex({0, 5})), Connack{.reason = ReasonCode::kNotAuthorized}},
      {"CONNACK 6", Pkt(0x20, Hex({0, 6})), kProtocol},
      {"CONNACK refused with a session", Pkt(0x20, Hex({1, 5})), kProtocol},
      {"CONNACK with reserved flags", Pkt(0x20, Hex({2, 0})), kMalformed},
      {"CONNACK of one byte", Pkt(0x20, Hex({0})), kMalformed},
      {"CONNACK with properties of MQTT 5", Pkt(0x20, Hex({0, 0, 0})), kMalformed},
      {"CONNACK with fixed header flags", Pkt(0x22, Hex({0, 0})), kMalformed},
  };
}

std::vector<ConformanceCase> Publishes() {
  return {
      {"PUBLISH", Pkt(0x30, Str("a/b") + "hello"), Publish{.topic = "a/b", .payload = "hello"}},
      {"PUBLISH without a payload", Pkt(0x30, Str("a")), Publish{.topic = "a"}},
      {"PUBLISH of bytes", Pkt(0x31, Str("a") + "\xFF\xFE"),
       Publish{.topic = "a", .payload = "\xFF\xFE", .retain = true}},
      {"PUBLISH QoS 1", Pkt(0x32, Str("a") + Hex({0x12, 0x34}) + "x"),
       Publish{.topic = "a", .payload = "x", .qos = 1, .packet_id = 0x1234}},
      {"PUBLISH QoS 1 again", Pkt(0x3A, Str("a") + Hex({0, 1})),
       Publish{.topic = "a", .qos = 1, .dup = true, .packet_id = 1}},
      {"PUBLISH QoS 2", Pkt(0x34, Str("a") + Hex({0, 1})),
       Publish{.topic = "a", .qos = 2, .packet_id = 1}},
      {"PUBLISH to a topic with blanks and dollars", Pkt(0x30, Str("a b/$c//")),
       Publish{.topic = "a b/$c//"}},
      {"PUBLISH QoS 3", Pkt(0x36, Str("a") + Hex({0, 1})), kMalformed},
      {"PUBLISH QoS 0 again", Pkt(0x38, Str("a")), kMalformed},
      {"PUBLISH with packet id 0", Pkt(0x32, Str("a") + Hex({0, 0})), kProtocol},
      {"PUBLISH without a packet id", Pkt(0x32, Str("a")), kMalformed},
      {"PUBLISH without a topic", Pkt(0x30, Str("")), kTopic},
      {"PUBLISH to +", Pkt(0x30, Str("a/+/b")), kTopic},
      {"PUBLISH to #", Pkt(0x30, Str("#")), kTopic},
      {"PUBLISH to a wildcard within a level", Pkt(0x30, Str("a+b")), kTopic},
      {"PUBLISH with U+0000 in the topic", Pkt(0x30, Str(std::string_view("a\0b", 3))), kMalformed},
      {"PUBLISH with a topic longer than the packet", Pkt(0x30, Hex({0, 9, 'a'})), kMalformed},
      {"PUBLISH that is empty", Pkt(0x30), kMalformed},
      {"PUBLISH with U+FEFF in the topic", Pkt(0x30, Str("\xEF\xBB\xBF/a")),
       Publish{.topic = "\xEF\xBB\xBF/a"}},
      {"PUBACK", Pkt(0x40, Hex({0x12, 0x34})), Puback{.packet_id = 0x1234}},
      {"PUBACK with packet id 0", Pkt(0x40, Hex({0, 0})), kProtocol},
      {"PUBACK with a reason", Pkt(0x40, Hex({0, 1, 0})), kMalformed},
      {"PUBACK of one byte", Pkt(0x40, Hex({1})), kMalformed},
      {"PUBACK with flags", Pkt(0x42, Hex({0, 1})), kMalformed},
      {"PUBREC", Pkt(0x50, Hex({0, 1})), Pubrec{.packet_id = 1}},
      {"PUBREC with packet id 0", Pkt(0x50, Hex({0, 0})), kProtocol},
      {"PUBREL", Pkt(0x62, Hex({0, 1})), Pubrel{.packet_id = 1}},
      {"PUBREL without its flags", Pkt(0x60, Hex({0, 1})), kMalformed},
      {"PUBREL with other flags", Pkt(0x63, Hex({0, 1})), kMalformed},
      {"PUBCOMP", Pkt(0x70, Hex({0xFF, 0xFF})), Pubcomp{.packet_id = 0xFFFF}},
      {"PUBCOMP that is empty", Pkt(0x70), kMalformed},
  };
}

std::vector<ConformanceCase> Subscribes() {
  return {
      {"SUBSCRIBE", Pkt(0x82, Hex({0, 1}) + Str("a/b") + Hex({1})),
       Subscribe{.packet_id = 1, .subscriptions = {{.filter = "a/b", .qos = 1}}}},
      {"SUBSCRIBE to several",
       Pkt(0x82, Hex({0, 1}) + Str("#") + Hex({0}) + Str("+/+") + Hex({2}) + Str("/") + Hex({1})),
       Subscribe{.packet_id = 1,
                 .subscriptions = {{.filter = "#"},
                                   {.filter = "+/+", .qos = 2},
                                   {.filter = "/", .qos = 1}}}},
      {"SUBSCRIBE without its flags", Pkt(0x80, Hex({0, 1}) + Str("a") + Hex({0})), kMalformed},
      {"SUBSCRIBE to nothing", Pkt(0x82, Hex({0, 1})), kProtocol},
      {"SUBSCRIBE with packet id 0", Pkt(0x82, Hex({0, 0}) + Str("a") + Hex({0})), kProtocol},
      {"SUBSCRIBE with QoS 3", Pkt(0x82, Hex({0, 1}) + Str("a") + Hex({3})), kMalformed},
      {"SUBSCRIBE with options of MQTT 5", Pkt(0x82, Hex({0, 1}) + Str("a") + Hex({0x05})),
       kMalformed},
      {"SUBSCRIBE without options", Pkt(0x82, Hex({0, 1}) + Str("a")), kMalformed},
      {"SUBSCRIBE to an empty filter", Pkt(0x82, Hex({0, 1}) + Str("") + Hex({0})), kFilter},
      {"SUBSCRIBE to a#", Pkt(0x82, Hex({0, 1}) + Str("a#") + Hex({0})), kFilter},
      {"SUBSCRIBE to #/a", Pkt(0x82, Hex({0, 1}) + Str("#/a") + Hex({0})), kFilter},
      {"SUBSCRIBE to a/#/b", Pkt(0x82, Hex({0, 1}) + Str("a/#/b") + Hex({0})), kFilter},
      {"SUBSCRIBE to a+", Pkt(0x82, Hex({0, 1}) + Str("a+/b") + Hex({0})), kFilter},
      {"SUBSCRIBE to a filter that is no UTF-8", Pkt(0x82, Hex({0, 1}) + Str("\xC3") + Hex({0})),
       kMalformed},
      {"SUBSCRIBE whose second filter is malformed",
       Pkt(0x82, Hex({0, 1}) + Str("a") + Hex({0}) + Str("b#") + Hex({0})), kFilter},
      {"SUBACK", Pkt(0x90, Hex({0, 1, 0, 1, 2, 0x80})),
       Suback{.packet_id = 1,
              .reasons = {ReasonCode::kSuccess, ReasonCode::kGrantedQos1, ReasonCode::kGrantedQos2,
                          ReasonCode::kUnspecified}}},
      {"SUBACK with a reason of MQTT 5", Pkt(0x90, Hex({0, 1, 0x87})), kProtocol},
      {"SUBACK of nothing", Pkt(0x90, Hex({0, 1})), kProtocol},
      {"UNSUBSCRIBE", Pkt(0xA2, Hex({0, 1}) + Str("a") + Str("b/#")),
       Unsubscribe{.packet_id = 1, .filters = {"a", "b/#"}}},
      {"UNSUBSCRIBE from nothing", Pkt(0xA2, Hex({0, 1})), kProtocol},
      {"UNSUBSCRIBE without its flags", Pkt(0xA0, Hex({0, 1}) + Str("a")), kMalformed},
      {"UNSUBSCRIBE from a malformed filter", Pkt(0xA2, Hex({0, 1}) + Str("a/#b")), kFilter},
      {"UNSUBSCRIBE with packet id 0", Pkt(0xA2, Hex({0, 0}) + Str("a")), kProtocol},
      {"UNSUBACK", Pkt(0xB0, Hex({0, 1})), Unsuback{.packet_id = 1}},
      {"UNSUBACK with reasons", Pkt(0xB0, Hex({0, 1, 0})), kMalformed},
      {"PINGREQ", Pkt(0xC0), Pingreq()},
      {"PINGREQ with a body", Pkt(0xC0, "x"), kMalformed},
      {"PINGREQ with flags", Pkt(0xC1), kMalformed},
      {"PINGRESP", Pkt(0xD0), Pingresp()},
      {"PINGRESP with a body", Pkt(0xD0, "x"), kMalformed},
      {"DISCONNECT", Pkt(0xE0), Disconnect()},
      {"DISCONNECT with a reason", Pkt(0xE0, Hex({0})), kMalformed},
      {"DISCONNECT with flags", Pkt(0xE1), kMalformed},
      {"AUTH", Pkt(0xF0), kMalformed},
      {"packet type 0", Pkt(0x00), kMalformed},
  };
}

}  // namespace mqtt_311
}  // namespace

std::vector<ConformanceCase> Cases311() {
  std::vector<ConformanceCase> all = mqtt_311::Connects();
  for (const auto& part : {mqtt_311::Publishes(), mqtt_311::Subscribes()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tutti::mqtt::testing
