#include "mqtt/properties.h"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <type_traits>
#include <variant>

#include "mqtt/topics.h"
#include "mqtt/wire_reader.h"
#include "mqtt/wire_writer.h"

namespace tutti::mqtt {
namespace {

using PlaceBits = uint16_t;
constexpr PlaceBits Bit(PropertyPlace place) {
  return static_cast<PlaceBits>(1u << static_cast<unsigned>(place));
}
constexpr PlaceBits Bit(PacketType type) { return Bit(PlaceIn(type)); }

constexpr PlaceBits kConnect = Bit(PacketType::kConnect);
constexpr PlaceBits kConnack = Bit(PacketType::kConnack);
constexpr PlaceBits kPublish = Bit(PacketType::kPublish);
constexpr PlaceBits kSubscribe = Bit(PacketType::kSubscribe);
constexpr PlaceBits kDisconnect = Bit(PacketType::kDisconnect);
constexpr PlaceBits kAuth = Bit(PacketType::kAuth);
constexpr PlaceBits kMessage = kPublish | Bit(PropertyPlace::kWill);
constexpr PlaceBits kAnswers = kConnack | Bit(PacketType::kPuback) | Bit(PacketType::kPubrec) |
                               Bit(PacketType::kPubrel) | Bit(PacketType::kPubcomp) |
                               Bit(PacketType::kSuback) | Bit(PacketType::kUnsuback) | kDisconnect |
                               kAuth;
constexpr PlaceBits kAnywhere =
    kAnswers | kMessage | kConnect | kSubscribe | Bit(PacketType::kUnsubscribe);

// The member of Properties; its type determines the encoding.
using Flag = std::optional<bool> Properties::*;
using Short = std::optional<uint16_t> Properties::*;
using Long = std::optional<uint32_t> Properties::*;
using Text = std::optional<std::string> Properties::*;
struct Bytes {
  Text member;
};
using Numbers = std::vector<uint32_t> Properties::*;
using Pairs = std::vector<UserProperty> Properties::*;

struct PropertyRow {
  uint8_t id;
  PlaceBits places;
  std::variant<Flag, Short, Long, Text, Bytes, Numbers, Pairs> member;
  bool zero_allowed = true;
};

// Table 2-4 of MQTT 5.0.
const PropertyRow kPropertyRows[] = {
    {0x01, kMessage, &Properties::payload_is_text},
    {0x02, kMessage, &Properties::message_expiry_s},
    {0x03, kMessage, &Properties::content_type},
    {0x08, kMessage, &Properties::response_topic},
    {0x09, kMessage, Bytes{&Properties::correlation_data}},
    {0x0B, kPublish | kSubscribe, &Properties::subscription_ids, false},
    {0x11, kConnect | kConnack | kDisconnect, &Properties::session_expiry_s},
    {0x12, kConnack, &Properties::assigned_client_id},
    {0x13, kConnack, &Properties::server_keep_alive_s},
    {0x15, kConnect | kConnack | kAuth, &Properties::authentication_method},
    {0x16, kConnect | kConnack | kAuth, Bytes{&Properties::authentication_data}},
    {0x17, kConnect, &Properties::request_problem_information},
    {0x18, Bit(PropertyPlace::kWill), &Properties::will_delay_s},
    {0x19, kConnect, &Properties::request_response_information},
    {0x1A, kConnack, &Properties::response_information},
    {0x1C, kConnack | kDisconnect, &Properties::server_reference},
    {0x1F, kAnswers, &Properties::reason_string},
    {0x21, kConnect | kConnack, &Properties::receive_maximum, false},
    {0x22, kConnect | kConnack, &Properties::topic_alias_maximum},
    {0x23, kPublish, &Properties::topic_alias, false},
    {0x24, kConnack, &Properties::maximum_qos},
    {0x25, kConnack, &Properties::retain_available},
    {0x26, kAnywhere, &Properties::user},
    {0x27, kConnect | kConnack, &Properties::maximum_packet_size, false},
    {0x28, kConnack, &Properties::wildcards_available},
    {0x29, kConnack, &Properties::subscription_ids_available},
    {0x2A, kConnack, &Properties::shared_available},
};
constexpr uint8_t kTopicAlias = 0x23;

bool MayRepeat(const PropertyRow& row, PropertyPlace place) {
  return std::holds_alternative<Pairs>(row.member) ||
         (std::holds_alternative<Numbers>(row.member) && place == PlaceIn(PacketType::kPublish));
}

template <typename T>
T NonZero(T value, const PropertyRow& row, WireReader& in) {
  if (value == 0 && !row.zero_allowed) {
    in.Fail(row.id == kTopicAlias ? ReasonCode::kTopicAliasInvalid : ReasonCode::kProtocolError,
            "a property is zero that may not be");
  }
  return value;
}

// The value of `row`'s property, into its member.
struct ReadValue {
  const PropertyRow& row;
  Properties& to;
  WireReader& in;

  void operator()(Flag member) const {
    const uint8_t value = in.Byte();
    if (value > 1) in.ProtocolError("a property is neither 0 nor 1");
    to.*member = value != 0;
  }
  void operator()(Short member) const { to.*member = NonZero(in.TwoBytes(), row, in); }
  void operator()(Long member) const { to.*member = NonZero(in.FourBytes(), row, in); }
  void operator()(Text member) const { to.*member = in.Utf8(); }
  void operator()(Bytes bytes) const { to.*(bytes.member) = in.Binary(); }
  void operator()(Numbers member) const {
    (to.*member).push_back(NonZero(in.VariableByteInteger(), row, in));
  }
  void operator()(Pairs member) const {
    if ((to.*member).size() == kMaxUserProperties) {
      return in.Fail(ReasonCode::kQuotaExceeded, "more than 64 user properties");
    }
    std::string name = in.Utf8();
    (to.*member).emplace_back(std::move(name), in.Utf8());
  }
};

// The value or values of `row`'s property with their identifiers, if there are any.
struct WriteValue {
  const PropertyRow& row;
  const Properties& from;
  WireWriter& out;

  void operator()(Flag member) const {
    if (from.*member) Identified().Byte(*(from.*member) ? 1 : 0);
  }
  void operator()(Short member) const {
    if (from.*member) Identified().TwoBytes(*(from.*member));
  }
  void operator()(Long member) const {
    if (from.*member) Identified().FourBytes(*(from.*member));
  }
  void operator()(Text member) const {
    if (from.*member) Identified().Binary(*(from.*member));
  }
  void operator()(Bytes bytes) const { (*this)(bytes.member); }
  void operator()(Numbers member) const {
    for (const uint32_t number : from.*member) Identified().VariableByteInteger(number);
  }
  void operator()(Pairs member) const {
    for (const UserProperty& pair : from.*member) {
      Identified().Binary(pair.first);
      out.Binary(pair.second);
    }
  }

 private:
  WireWriter& Identified() const {
    out.Byte(row.id);
    return out;
  }
};

}  // namespace

Properties ReadProperties(WireReader& in, PropertyPlace place) {
  Properties properties;
  WireReader list(in.Take(in.VariableByteInteger()));
  std::bitset<0x2B> seen;
  while (in.ok() && list.ok() && !list.empty()) {
    const uint32_t id = list.VariableByteInteger();
    const PropertyRow* row = std::find_if(std::begin(kPropertyRows), std::end(kPropertyRows),
                                          [id](const PropertyRow& each) { return each.id == id; });
    if (row == std::end(kPropertyRows) || (row->places & Bit(place)) == 0) {
      list.Malformed("a property that may not stand in this packet");
      break;
    }
    if (seen[id] && !MayRepeat(*row, place)) list.ProtocolError("a property stands twice");
    seen[id] = true;
    std::visit(ReadValue{*row, properties, list}, row->member);
  }
  if (properties.response_topic && !IsTopicName(*properties.response_topic) && list.ok()) {
    list.Fail(ReasonCode::kTopicNameInvalid, "the response topic is no topic name");
  }
  if (list.fault()) in.Fail(list.fault()->code, list.fault()->why);
  return properties;
}

void WriteProperties(const Properties& properties, PropertyPlace place, WireWriter& out) {
  WireWriter list;
  for (const PropertyRow& row : kPropertyRows) {
    if ((row.places & Bit(place)) != 0) std::visit(WriteValue{row, properties, list}, row.member);
  }
  out.VariableByteInteger(list.ok() ? list.bytes().size() : kMaxVariableByteInteger + 1);
  out.Raw(list.bytes());
}

}  // namespace tutti::mqtt
