// Conformance with MQTT 5.0, as a table. The order is that of the standard's chapter 3.
#include "mqtt/testing/conformance_tables.h"

namespace tutti::mqtt::testing {
namespace {
namespace mqtt_5 {

constexpr auto kMalformed = ReasonCode::kMalformedPacket;
constexpr auto kProtocol = ReasonCode::kProtocolError;
constexpr auto kFilter = ReasonCode::kTopicFilterInvalid;
constexpr auto kTopic = ReasonCode::kTopicNameInvalid;
constexpr auto kAlias = ReasonCode::kTopicAliasInvalid;

// A CONNECT of client "c" with these properties.
std::string ConnectWith(std::string_view properties) {
  return Pkt(0x10, Str("MQTT") + Hex({5, 2, 0, 60}) + Props(properties) + Str("c"));
}
std::string ConnectWithWill(unsigned flags, std::string_view properties,
                            std::string_view topic = "w") {
  return Pkt(0x10, Str("MQTT") + Hex({5, flags, 0, 60, 0}) + Str("c") + Props(properties) +
                       Str(topic) + Str("gone"));
}
std::string ConnackWith(std::string_view properties) {
  return Pkt(0x20, Hex({0, 0}) + Props(properties));
}
std::string PublishWith(std::string_view properties, std::string_view topic = "a") {
  return Pkt(0x30, Str(topic) + Props(properties) + "x");
}
std::string SubscribeWith(std::string_view properties, unsigned options = 0,
                          std::string_view filter = "a") {
  return Pkt(0x82, Hex({0, 1}) + Props(properties) + Str(filter) + Hex({options}));
}

std::vector<ConformanceCase> Connects() {
  const auto plain = [] { return Connect{.keep_alive_s = 60, .client_id = "c"}; };
  const auto with = [&](Properties properties) {
    Connect connect = plain();
    connect.properties = std::move(properties);
    return connect;
  };
  const auto will = [&](Will w) {
    Connect connect = plain();
    connect.will = std::move(w);
    return connect;
  };
  Connect password = plain();
  password.password = "p";
  return {
      {"CONNECT", ConnectWith(""), plain()},
      {"CONNECT with a password alone",
       Pkt(0x10, Str("MQTT") + Hex({5, 0x42, 0, 60, 0}) + Str("c") + Str("p")), password},
      {"CONNECT with a session expiry", ConnectWith(Hex({0x11, 0, 0, 0, 10})),
       with({.session_expiry_s = 10})},
      {"CONNECT of a session that never expires", ConnectWith(Hex({0x11, 0xFF, 0xFF, 0xFF, 0xFF})),
       with({.session_expiry_s = kNeverExpires})},
      {"CONNECT with a receive maximum", ConnectWith(Hex({0x21, 0, 1})),
       with({.receive_maximum = 1})},
      {"CONNECT with a maximum packet size", ConnectWith(Hex({0x27, 0, 0, 1, 0})),
       with({.maximum_packet_size = 256})},
      {"CONNECT with a topic alias maximum of 0", ConnectWith(Hex({0x22, 0, 0})),
       with({.topic_alias_maximum = 0})},
      {"CONNECT that asks for information", ConnectWith(Hex({0x17, 0, 0x19, 1})),
       with({.request_problem_information = false, .request_response_information = true})},
      {"CONNECT with a method", ConnectWith(Hex({0x15}) + Str("m") + Hex({0x16}) + Str("\xFF")),
       with({.authentication_method = "m", .authentication_data = "\xFF"})},
      {"CONNECT with user properties, one twice",
       ConnectWith(Hex({0x26}) + Str("k") + Str("v") + Hex({0x26}) + Str("k") + Str("v")),
       with({.user = {{"k", "v"}, {"k", "v"}}})},
      {"CONNECT with a Will", ConnectWithWill(0x0E, ""),
       will({.topic = "w", .payload = "gone", .qos = 1})},
      {"CONNECT with a Will with properties",
       ConnectWithWill(0x06, Hex({0x01, 1, 0x02, 0, 0, 0, 9, 0x18, 0, 0, 0, 5})), Packet([&] {
         Connect connect = will({.topic = "w", .payload = "gone"});
         connect.will->properties.payload_is_text = true;
         connect.will->properties.message_expiry_s = 9;
         connect.will->properties.will_delay_s = 5;
         return connect;
       }()),
       true},
      {"CONNECT with a receive maximum of 0", ConnectWith(Hex({0x21, 0, 0})), kProtocol},
      {"CONNECT with a maximum packet size of 0", ConnectWith(Hex({0x27, 0, 0, 0, 0})), kProtocol},
      {"CONNECT with a property twice", ConnectWith(Hex({0x21, 0, 1, 0x21, 0, 1})), kProtocol},
      {"CONNECT that asks for 2", ConnectWith(Hex({0x17, 2})), kProtocol},
      {"CONNECT that asks for responses twice over", ConnectWith(Hex({0x19, 2})), kProtocol},
      {"CONNECT with data without a method", ConnectWith(Hex({0x16}) + Str("d")), kProtocol},
      {"CONNECT with a property of PUBLISH", ConnectWith(Hex({0x23, 0, 1})), kMalformed},
      {"CONNECT with a Will's property among its own", ConnectWith(Hex({0x18, 0, 0, 0, 1})),
       kMalformed},
      {"CONNECT with property 0", ConnectWith(Hex({0x00})), kMalformed},
      {"CONNECT with property 0x7F", ConnectWith(Hex({0x7F, 0})), kMalformed},
      {"CONNECT with a property id of two bytes", ConnectWith(Hex({0xA1, 0x01, 0})), kMalformed},
      {"CONNECT with a property id longer than it need be",
       ConnectWith(Hex({0x91, 0x00, 0, 0, 0, 1})), kMalformed},
      {"CONNECT with half a property", ConnectWith(Hex({0x11, 0, 0})), kMalformed},
      {"CONNECT with properties longer than it is",
       Pkt(0x10, Str("MQTT") + Hex({5, 2, 0, 60, 100})), kMalformed},
      {"CONNECT with a property length longer than it need be",
       Pkt(0x10, Str("MQTT") + Hex({5, 2, 0, 60, 0x80, 0x00}) + Str("c")), kMalformed},
      {"CONNECT with a property length of five bytes",
       Pkt(0x10, Str("MQTT") + Hex({5, 2, 0, 60, 0x80, 0x80, 0x80, 0x80, 0x01}) + Str("c")),
       kMalformed},
      {"CONNECT without properties", Pkt(0x10, Str("MQTT") + Hex({5, 2, 0, 60})), kMalformed},
      {"CONNECT with a long remaining length",
       Hex({0x10, 0x8E, 0x00}) + Str("MQTT") + Hex({5, 2, 0, 60, 0}) + Str("c"), kMalformed},
      {"CONNECT with a remaining length of five bytes", Hex({0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}),
       kMalformed},
      {"CONNECT with the reserved flag", Pkt(0x10, Str("MQTT") + Hex({5, 3, 0, 60, 0}) + Str("c")),
       kMalformed},
      {"CONNECT with Will QoS 3", ConnectWithWill(0x1E, ""), kMalformed},
      {"CONNECT with a Will delay of two bytes", ConnectWithWill(0x06, Hex({0x18, 0, 1})),
       kMalformed},
      {"CONNECT with a Will that has an alias", ConnectWithWill(0x06, Hex({0x23, 0, 1})),
       kMalformed},
      {"CONNECT with a Will's format 2", ConnectWithWill(0x06, Hex({0x01, 2})), kProtocol},
      {"CONNECT with a Will to a wildcard", ConnectWithWill(0x06, "", "w/+"), kTopic},
      {"CONNECT with a Will that answers to a wildcard",
       ConnectWithWill(0x06, Hex({0x08}) + Str("r/#")), kTopic},
      {"CONNECT with a user property that is no UTF-8",
       ConnectWith(Hex({0x26}) + Str("k") + Str("\xED\xBF\xBF")), kMalformed},
      {"CONNECT with 65 user properties", ConnectWith([] {
         std::string list;
         for (int i = 0; i < 65; ++i) list += Hex({0x26, 0, 1, 'k', 0, 0});
         return list;
       }()),
       ReasonCode::kQuotaExceeded},
      {"CONNACK", ConnackWith(""), Connack{}},
      {"CONNACK refused", Pkt(0x20, Hex({0, 0x87, 0})),
       Connack{.reason = ReasonCode::kNotAuthorized}},
      {"CONNACK with everything",
       ConnackWith(Hex({0x11, 0, 0, 0, 1, 0x12}) + Str("id") + Hex({0x13, 0, 9, 0x1A}) + Str("r") +
                   Hex({0x1C}) + Str("s") + Hex({0x1F}) + Str("why") +
                   Hex({0x21, 0, 20, 0x22, 0,    4, 0x24, 1, 0x25, 0, 0x27,
                        0,    1, 0,  0,    0x28, 1, 0x29, 0, 0x2A, 0})),
       Connack{.properties = {.session_expiry_s = 1,
                              .assigned_client_id = "id",
                              .server_keep_alive_s = 9,
                              .response_information = "r",
                              .server_reference = "s",
                              .reason_string = "why",
                              .receive_maximum = 20,
                              .topic_alias_maximum = 4,
                              .maximum_qos = true,
                              .retain_available = false,
                              .maximum_packet_size = 65536,
                              .wildcards_available = true,
                              .subscription_ids_available = false,
                              .shared_available = false}}},
      {"CONNACK with maximum QoS 2", ConnackWith(Hex({0x24, 2})), kProtocol},
      {"CONNACK with retain 2", ConnackWith(Hex({0x25, 2})), kProtocol},
      {"CONNACK with a client's property", ConnackWith(Hex({0x17, 1})), kMalformed},
      {"CONNACK with a reason of DISCONNECT", Pkt(0x20, Hex({0, 0x8E, 0})), kProtocol},
      {"CONNACK with a reason that there is not", Pkt(0x20, Hex({0, 0x05, 0})), kProtocol},
      {"CONNACK refused with a session", Pkt(0x20, Hex({1, 0x87, 0})), kProtocol},
      {"CONNACK without properties", Pkt(0x20, Hex({0, 0})), kMalformed},
      {"CONNACK with a long remaining length", Hex({0x20, 0x83, 0x00, 0, 0, 0}), kMalformed},
  };
}

std::vector<ConformanceCase> Publishes() {
  const auto with = [](Properties properties, std::string topic = "a") {
    return Publish{.topic = std::move(topic), .payload = "x", .properties = std::move(properties)};
  };
  return {
      {"PUBLISH", PublishWith(""), with({})},
      {"PUBLISH QoS 1", Pkt(0x3A, Str("a") + Hex({0, 7, 0})),
       Publish{.topic = "a", .qos = 1, .dup = true, .packet_id = 7}},
      {"PUBLISH of a request",
       PublishWith(Hex({0x01, 1, 0x02, 0, 0, 0, 30, 0x03}) + Str("application/json") + Hex({0x08}) +
                   Str("r/1") + Hex({0x09}) + Str(std::string_view("\0\xFF", 2)) + Hex({0x26}) +
                   Str("k") + Str("")),
       with({.payload_is_text = true,
             .message_expiry_s = 30,
             .content_type = "application/json",
             .response_topic = "r/1",
             .correlation_data = std::string("\0\xFF", 2),
             .user = {{"k", ""}}})},
      {"PUBLISH with an alias", PublishWith(Hex({0x23, 0, 1})), with({.topic_alias = 1})},
      {"PUBLISH to an alias", PublishWith(Hex({0x23, 0xFF, 0xFF}), ""),
       with({.topic_alias = 65535}, "")},
      {"PUBLISH of two subscriptions", PublishWith(Hex({0x0B, 1, 0x0B, 0xFF, 0xFF, 0xFF, 0x7F})),
       with({.subscription_ids = {1, 268435455}})},
      {"PUBLISH without properties", Pkt(0x30, Str("a")), kMalformed},
      {"PUBLISH QoS 3", Pkt(0x36, Str("a") + Hex({0, 1, 0})), kMalformed},
      {"PUBLISH QoS 0 again", Pkt(0x38, Str("a") + Hex({0})), kMalformed},
      {"PUBLISH with packet id 0", Pkt(0x32, Str("a") + Hex({0, 0, 0})), kProtocol},
      {"PUBLISH with neither topic nor alias", PublishWith("", ""), kProtocol},
      {"PUBLISH to alias 0", PublishWith(Hex({0x23, 0, 0})), kAlias},
      {"PUBLISH with two aliases", PublishWith(Hex({0x23, 0, 1, 0x23, 0, 1})), kProtocol},
      {"PUBLISH to a wildcard", PublishWith("", "a/#"), kTopic},
      {"PUBLISH that answers to a wildcard", PublishWith(Hex({0x08}) + Str("r/+")), kTopic},
      {"PUBLISH that answers to nothing", PublishWith(Hex({0x08}) + Str("")), kTopic},
      {"PUBLISH with format 2", PublishWith(Hex({0x01, 2})), kProtocol},
      {"PUBLISH of subscription 0", PublishWith(Hex({0x0B, 0})), kProtocol},
      {"PUBLISH of a subscription of five bytes",
       PublishWith(Hex({0x0B, 0x80, 0x80, 0x80, 0x80, 0x01})), kMalformed},
      {"PUBLISH with a session expiry", PublishWith(Hex({0x11, 0, 0, 0, 1})), kMalformed},
      {"PUBLISH with a content type that is no UTF-8", PublishWith(Hex({0x03}) + Str("\x80")),
       kMalformed},
      {"PUBLISH with two expiries", PublishWith(Hex({0x02, 0, 0, 0, 1, 0x02, 0, 0, 0, 1})),
       kProtocol},
      {"PUBLISH with a long remaining length", Hex({0x30, 0x84, 0x00, 0, 1, 'a', 0}), kMalformed},
      {"PUBACK", Pkt(0x40, Hex({0, 1})), Puback{.packet_id = 1}},
      {"PUBACK with a reason", Pkt(0x40, Hex({0, 1, 0x10})),
       Puback{.packet_id = 1, .reason = ReasonCode::kNoMatchingSubscribers}},
      {"PUBACK with success written out", Pkt(0x40, Hex({0, 1, 0})), Puback{.packet_id = 1}, false},
      {"PUBACK with no properties written out", Pkt(0x40, Hex({0, 1, 0, 0})),
       Puback{.packet_id = 1}, false},
      {"PUBACK with properties",
       Pkt(0x40,
           Hex({0, 1, 0x87}) + Props(Hex({0x1F}) + Str("no") + Hex({0x26}) + Str("k") + Str("v"))),
       Puback{.packet_id = 1,
              .reason = ReasonCode::kNotAuthorized,
              .properties = {.reason_string = "no", .user = {{"k", "v"}}}}},
      {"PUBACK with a reason of PUBREL", Pkt(0x40, Hex({0, 1, 0x92})), kProtocol},
      {"PUBACK with two reason strings",
       Pkt(0x40, Hex({0, 1, 0}) + Props(Hex({0x1F}) + Str("a") + Hex({0x1F}) + Str("b"))),
       kProtocol},
      {"PUBACK with an expiry", Pkt(0x40, Hex({0, 1, 0, 5, 0x02, 0, 0, 0, 1})), kMalformed},
      {"PUBACK with packet id 0", Pkt(0x40, Hex({0, 0})), kProtocol},
      {"PUBACK with bytes behind it", Pkt(0x40, Hex({0, 1, 0, 0, 0})), kMalformed},
      {"PUBREC", Pkt(0x50, Hex({0, 1, 0x97})),
       Pubrec{.packet_id = 1, .reason = ReasonCode::kQuotaExceeded}},
      {"PUBREC with a reason of CONNACK", Pkt(0x50, Hex({0, 1, 0x86})), kProtocol},
      {"PUBREL", Pkt(0x62, Hex({0, 1, 0x92})),
       Pubrel{.packet_id = 1, .reason = ReasonCode::kPacketIdNotFound}},
      {"PUBREL with a reason of PUBACK", Pkt(0x62, Hex({0, 1, 0x10})), kProtocol},
      {"PUBREL without its flags", Pkt(0x60, Hex({0, 1})), kMalformed},
      {"PUBCOMP", Pkt(0x70, Hex({0, 1})), Pubcomp{.packet_id = 1}},
      {"PUBCOMP with properties cut short", Pkt(0x70, Hex({0, 1, 0, 9, 0x1F})), kMalformed},
  };
}

std::vector<ConformanceCase> Subscribes() {
  const auto subscribe = [](Subscription subscription, Properties properties = {}) {
    return Subscribe{.packet_id = 1,
                     .subscriptions = {std::move(subscription)},
                     .properties = std::move(properties)};
  };
  return {
      {"SUBSCRIBE", SubscribeWith(""), subscribe({.filter = "a"})},
      {"SUBSCRIBE with all options", SubscribeWith("", 0x2D),
       subscribe({.filter = "a",
                  .qos = 1,
                  .no_local = true,
                  .retain_as_published = true,
                  .retain_handling = 2})},
      {"SUBSCRIBE with an id", SubscribeWith(Hex({0x0B, 0x80, 0x01})),
       subscribe({.filter = "a"}, {.subscription_ids = {128}})},
      {"SUBSCRIBE shared", SubscribeWith("", 1, "$share/g/a/+"),
       subscribe({.filter = "$share/g/a/+", .qos = 1})},
      {"SUBSCRIBE with two ids", SubscribeWith(Hex({0x0B, 1, 0x0B, 2})), kProtocol},
      {"SUBSCRIBE with id 0", SubscribeWith(Hex({0x0B, 0})), kProtocol},
      {"SUBSCRIBE with an alias", SubscribeWith(Hex({0x23, 0, 1})), kMalformed},
      {"SUBSCRIBE with a reason string", SubscribeWith(Hex({0x1F}) + Str("a")), kMalformed},
      {"SUBSCRIBE with QoS 3", SubscribeWith("", 3), kMalformed},
      {"SUBSCRIBE with retain handling 3", SubscribeWith("", 0x30), kProtocol},
      {"SUBSCRIBE with reserved options", SubscribeWith("", 0x40), kMalformed},
      {"SUBSCRIBE shared but not local", SubscribeWith("", 4, "$share/g/a"), kProtocol},
      {"SUBSCRIBE to $share//x", SubscribeWith("", 0, "$share//x"), kFilter},
      {"SUBSCRIBE to $share/g", SubscribeWith("", 0, "$share/g"), kFilter},
      {"SUBSCRIBE to $share/g/", SubscribeWith("", 0, "$share/g/"), kFilter},
      {"SUBSCRIBE to $share/+/x", SubscribeWith("", 0, "$share/+/x"), kFilter},
      {"SUBSCRIBE to a##", SubscribeWith("", 0, "a/##"), kFilter},
      {"SUBSCRIBE to nothing", Pkt(0x82, Hex({0, 1, 0})), kProtocol},
      {"SUBSCRIBE without properties", Pkt(0x82, Hex({0, 1})), kMalformed},
      {"SUBSCRIBE with packet id 0", Pkt(0x82, Hex({0, 0, 0}) + Str("a") + Hex({0})), kProtocol},
      {"SUBACK", Pkt(0x90, Hex({0, 1, 0, 1, 0x87, 0x9E})),
       Suback{.packet_id = 1,
              .reasons = {ReasonCode::kGrantedQos1, ReasonCode::kNotAuthorized,
                          ReasonCode::kSharedSubscriptionsNotSupported}}},
      {"SUBACK with a reason of CONNACK", Pkt(0x90, Hex({0, 1, 0, 0x85})), kProtocol},
      {"SUBACK of nothing", Pkt(0x90, Hex({0, 1, 0})), kProtocol},
      {"UNSUBSCRIBE", Pkt(0xA2, Hex({0, 1}) + Props(Hex({0x26}) + Str("k") + Str("v")) + Str("a")),
       Unsubscribe{.packet_id = 1, .filters = {"a"}, .properties = {.user = {{"k", "v"}}}}},
      {"UNSUBSCRIBE with a subscription id", Pkt(0xA2, Hex({0, 1, 2, 0x0B, 1}) + Str("a")),
       kMalformed},
      {"UNSUBSCRIBE from nothing", Pkt(0xA2, Hex({0, 1, 0})), kProtocol},
      {"UNSUBSCRIBE from a malformed filter", Pkt(0xA2, Hex({0, 1, 0}) + Str("+a")), kFilter},
      {"UNSUBACK", Pkt(0xB0, Hex({0, 1, 0, 0, 0x11})),
       Unsuback{.packet_id = 1,
                .reasons = {ReasonCode::kSuccess, ReasonCode::kNoSubscriptionExisted}}},
      {"UNSUBACK with a reason of SUBACK", Pkt(0xB0, Hex({0, 1, 0, 1})), kProtocol},
      {"UNSUBACK of nothing", Pkt(0xB0, Hex({0, 1, 0})), kProtocol},
  };
}

std::vector<ConformanceCase> Others() {
  return {
      {"PINGREQ", Pkt(0xC0), Pingreq()},
      {"PINGREQ with a body", Pkt(0xC0, Hex({0})), kMalformed},
      {"PINGREQ with flags", Pkt(0xC8), kMalformed},
      {"PINGREQ with a long remaining length", Hex({0xC0, 0x80, 0x00}), kMalformed},
      {"PINGRESP", Pkt(0xD0), Pingresp()},
      {"PINGRESP with a body", Pkt(0xD0, Hex({0})), kMalformed},
      {"DISCONNECT", Pkt(0xE0), Disconnect()},
      {"DISCONNECT with the Will", Pkt(0xE0, Hex({0x04})),
       Disconnect{.reason = ReasonCode::kDisconnectWithWill}},
      {"DISCONNECT with properties",
       Pkt(0xE0, Hex({0x8B}) +
                     Props(Hex({0x11, 0, 0, 0, 7, 0x1C}) + Str("s") + Hex({0x1F}) + Str("bye"))),
       Disconnect{
           .reason = ReasonCode::kServerShuttingDown,
           .properties = {.session_expiry_s = 7, .server_reference = "s", .reason_string = "bye"}}},
      {"DISCONNECT with a reason of CONNACK", Pkt(0xE0, Hex({0x84})), kProtocol},
      {"DISCONNECT with a receive maximum", Pkt(0xE0, Hex({0, 3, 0x21, 0, 1})), kMalformed},
      {"DISCONNECT with bytes behind it", Pkt(0xE0, Hex({0, 0, 0})), kMalformed},
      {"DISCONNECT with flags", Pkt(0xE2), kMalformed},
      {"AUTH", Pkt(0xF0), Auth()},
      {"AUTH that goes on",
       Pkt(0xF0, Hex({0x18}) + Props(Hex({0x15}) + Str("m") + Hex({0x16}) + Str("d"))),
       Auth{.reason = ReasonCode::kContinueAuthentication,
            .properties = {.authentication_method = "m", .authentication_data = "d"}}},
      {"AUTH with a reason of DISCONNECT", Pkt(0xF0, Hex({0x04, 0})), kProtocol},
      {"AUTH without a property length", Pkt(0xF0, Hex({0x18})), kMalformed},
      {"AUTH with flags", Pkt(0xF1), kMalformed},
      {"packet type 0", Pkt(0x00), kMalformed},
  };
}

}  // namespace mqtt_5
}  // namespace

std::vector<ConformanceCase> Cases5() {
  std::vector<ConformanceCase> all = mqtt_5::Connects();
  for (const auto& part : {mqtt_5::Publishes(), mqtt_5::Subscribes(), mqtt_5::Others()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace tutti::mqtt::testing
