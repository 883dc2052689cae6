// Packets of every type with random contents, all of them such as the standard allows.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/random.h"
#include "mqtt/packet.h"

namespace tutti::mqtt::testing {

class PacketMaker {
 public:
  PacketMaker(Version version, Random& random) : v5_(version == Version::k5), random_(random) {}

  Packet Make() {
    switch (static_cast<PacketType>(1 + random_.Below(v5_ ? 15 : 14))) {
      case PacketType::kConnect:
        return MakeConnect();
      case PacketType::kConnack:
        return MakeConnack();
      case PacketType::kPublish:
        return MakePublish();
      case PacketType::kPuback:
        return MakeAck<PacketType::kPuback>();
      case PacketType::kPubrec:
        return MakeAck<PacketType::kPubrec>();
      case PacketType::kPubrel:
        return MakeAck<PacketType::kPubrel>();
      case PacketType::kPubcomp:
        return MakeAck<PacketType::kPubcomp>();
      case PacketType::kSubscribe:
        return MakeSubscribe();
      case PacketType::kSuback:
        return MakeReasons<Suback>(PacketType::kSuback);
      case PacketType::kUnsubscribe:
        return MakeUnsubscribe();
      case PacketType::kUnsuback:
        return MakeReasons<Unsuback>(PacketType::kUnsuback);
      case PacketType::kPingreq:
        return Pingreq();
      case PacketType::kPingresp:
        return Pingresp();
      case PacketType::kDisconnect:
        return MakeGoodbye<Disconnect>(PacketType::kDisconnect);
      case PacketType::kAuth:
        return MakeGoodbye<Auth>(PacketType::kAuth);
    }
    return Pingreq();
  }

 private:
  bool Often() { return random_.Chance(0.3); }
  uint16_t Id() { return static_cast<uint16_t>(1 + random_.Below(65535)); }
  uint32_t Number() { return static_cast<uint32_t>(random_.Next() >> random_.Below(64)); }
  uint16_t Short() { return static_cast<uint16_t>(Number()); }
  std::string Bytes() {
    std::string bytes;
    for (uint64_t left = random_.Below(Often() ? 300 : 8); left > 0; --left) {
      bytes += static_cast<char>(random_.Below(256));
    }
    return bytes;
  }
  std::string Text() {
    constexpr std::array<const char*, 8> kPieces = {
        "a", "/", "$", "\x01", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\x7F"};
    std::string text;
    for (uint64_t left = random_.Below(Often() ? 100 : 6); left > 0; --left) {
      text += kPieces[random_.Below(kPieces.size())];
    }
    return text;
  }
  std::string Topic() { return "t" + Text(); }
  std::string Filter() {
    constexpr std::array<const char*, 5> kEnds = {"", "/+", "/#", "/+/x", "/+/+/#"};
    return Topic() + kEnds[random_.Below(kEnds.size())];
  }
  ReasonCode Reason(PacketType type) {
    while (true) {
      const auto code = static_cast<uint8_t>(random_.Below(256));
      if (ReasonCodeFits(code, type)) return static_cast<ReasonCode>(code);
    }
  }
  template <typename T, typename Make>
  void Maybe(std::optional<T>& field, Make make) {
    if (Often()) field = make();
  }

  // Every property that may stand in `place`, each now and then.
  Properties PropertiesOf(PropertyPlace place) {
    Properties p;
    if (!v5_) return p;
    const auto in = [&](std::initializer_list<PacketType> types) {
      for (const PacketType type : types) {
        if (PlaceIn(type) == place) return true;
      }
      return false;
    };
    const auto text = [this] { return Text(); };
    const auto bytes = [this] { return Bytes(); };
    const auto flag = [this] { return random_.Chance(0.5); };
    const auto number = [this] { return Number(); };
    const auto some = [this] { return Number() | 1; };
    const auto short_number = [this] { return Short(); };
    const auto id = [this] { return Id(); };
    if (place == PropertyPlace::kWill || in({PacketType::kPublish})) {
      Maybe(p.payload_is_text, flag);
      Maybe(p.message_expiry_s, number);
      Maybe(p.content_type, text);
      Maybe(p.response_topic, [this] { return Topic(); });
      Maybe(p.correlation_data, bytes);
    }
    if (place == PropertyPlace::kWill) Maybe(p.will_delay_s, number);
    if (in({PacketType::kPublish})) Maybe(p.topic_alias, id);
    const uint64_t max_ids = in({PacketType::kPublish}) ? 3 : in({PacketType::kSubscribe}) ? 1 : 0;
    for (uint64_t left = random_.Below(max_ids + 1); left > 0; --left) {
      p.subscription_ids.push_back(1 + static_cast<uint32_t>(random_.Below(268'435'455)));
    }
    if (in({PacketType::kConnect, PacketType::kConnack, PacketType::kDisconnect})) {
      Maybe(p.session_expiry_s, number);
    }
    if (in({PacketType::kConnect, PacketType::kConnack, PacketType::kAuth}) && Often()) {
      p.authentication_method = Text();
      Maybe(p.authentication_data, bytes);
    }
    if (in({PacketType::kConnect, PacketType::kConnack})) {
      Maybe(p.receive_maximum, id);
      Maybe(p.topic_alias_maximum, short_number);
      Maybe(p.maximum_packet_size, some);
    }
    if (in({PacketType::kConnect})) {
      Maybe(p.request_problem_information, flag);
      Maybe(p.request_response_information, flag);
    }
    if (in({PacketType::kConnack})) {
      Maybe(p.assigned_client_id, text);
      Maybe(p.server_keep_alive_s, short_number);
      Maybe(p.response_information, text);
      Maybe(p.maximum_qos, flag);
      Maybe(p.retain_available, flag);
      Maybe(p.wildcards_available, flag);
      Maybe(p.subscription_ids_available, flag);
      Maybe(p.shared_available, flag);
    }
    if (in({PacketType::kConnack, PacketType::kDisconnect})) Maybe(p.server_reference, text);
    if (place != PropertyPlace::kWill && !in({PacketType::kConnect, PacketType::kPublish,
                                              PacketType::kSubscribe, PacketType::kUnsubscribe})) {
      Maybe(p.reason_string, text);
    }
    for (uint64_t left = Often() ? random_.Below(5) : 0; left > 0; --left) {
      std::string name = Text();
      p.user.emplace_back(std::move(name), Text());
    }
    return p;
  }
  Properties PropertiesOf(PacketType type) { return PropertiesOf(PlaceIn(type)); }

  Packet MakeConnect() {
    Connect packet;
    packet.version = v5_ ? Version::k5 : Version::k311;
    packet.clean_start = Often();
    packet.keep_alive_s = Short();
    packet.client_id = Text();
    Maybe(packet.user_name, [this] { return Text(); });
    if (v5_ || packet.user_name) Maybe(packet.password, [this] { return Bytes(); });
    if (Often()) {
      Will& will = packet.will.emplace();
      will.topic = Topic();
      will.payload = Bytes();
      will.qos = static_cast<uint8_t>(random_.Below(3));
      will.retain = Often();
      will.properties = PropertiesOf(PropertyPlace::kWill);
    }
    packet.properties = PropertiesOf(PacketType::kConnect);
    return packet;
  }
  Packet MakeConnack() {
    Connack packet;
    packet.reason = v5_ ? Reason(PacketType::kConnack)
                        : ReasonOfReturnCode(static_cast<uint8_t>(random_.Below(6)));
    packet.session_present = packet.reason == ReasonCode::kSuccess && Often();
    packet.properties = PropertiesOf(PacketType::kConnack);
    return packet;
  }
  Packet MakePublish() {
    Publish packet;
    packet.properties = PropertiesOf(PacketType::kPublish);
    if (!packet.properties.topic_alias || Often()) packet.topic = Topic();
    packet.payload = Bytes();
    packet.qos = static_cast<uint8_t>(random_.Below(3));
    packet.retain = Often();
    if (packet.qos > 0) {
      packet.dup = Often();
      packet.packet_id = Id();
    }
    return packet;
  }
  template <PacketType kType>
  Packet MakeAck() {
    PublishAck<kType> packet;
    packet.packet_id = Id();
    if (v5_) packet.reason = Reason(kType);
    packet.properties = PropertiesOf(kType);
    return packet;
  }
  Packet MakeSubscribe() {
    Subscribe packet;
    packet.packet_id = Id();
    for (uint64_t left = 1 + random_.Below(4); left > 0; --left) {
      Subscription& subscription = packet.subscriptions.emplace_back();
      subscription.filter = Filter();
      subscription.qos = static_cast<uint8_t>(random_.Below(3));
      if (!v5_) continue;
      subscription.no_local = Often();
      subscription.retain_as_published = Often();
      subscription.retain_handling = static_cast<uint8_t>(random_.Below(3));
      if (!subscription.no_local && Often()) subscription.filter.insert(0, "$share/group/");
    }
    packet.properties = PropertiesOf(PacketType::kSubscribe);
    return packet;
  }
  Packet MakeUnsubscribe() {
    Unsubscribe packet;
    packet.packet_id = Id();
    for (uint64_t left = 1 + random_.Below(4); left > 0; --left) packet.filters.push_back(Filter());
    packet.properties = PropertiesOf(PacketType::kUnsubscribe);
    return packet;
  }
  template <typename T>
  Packet MakeReasons(PacketType type) {
    T packet;
    packet.packet_id = Id();
    const bool listed = v5_ || type == PacketType::kSuback;
    for (uint64_t left = listed ? 1 + random_.Below(4) : 0; left > 0; --left) {
      constexpr std::array kOld = {ReasonCode::kSuccess, ReasonCode::kGrantedQos1,
                                   ReasonCode::kGrantedQos2, ReasonCode::kUnspecified};
      packet.reasons.push_back(v5_ ? Reason(type) : kOld[random_.Below(kOld.size())]);
    }
    packet.properties = PropertiesOf(type);
    return packet;
  }
  template <typename T>
  Packet MakeGoodbye(PacketType type) {
    T packet;
    if (v5_) packet.reason = Reason(type);
    packet.properties = PropertiesOf(type);
    return packet;
  }

  const bool v5_;
  Random& random_;
};

// Fields that `version` does not have keep their defaults, so that decoded packets can be compared.
inline Packet RandomPacket(Version version, Random& random) {
  return PacketMaker(version, random).Make();
}

}  // namespace tutti::mqtt::testing
