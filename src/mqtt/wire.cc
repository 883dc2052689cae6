#include "mqtt/wire.h"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <variant>

#include "base/utf8.h"
#include "mqtt/topics.h"

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

  template <typename T>
  void operator()(std::optional<T> Properties::*member) const {
    if (from.*member) Put(*(from.*member));
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
  void Put(bool value) const { Identified().Byte(value ? 1 : 0); }
  void Put(uint16_t value) const { Identified().TwoBytes(value); }
  void Put(uint32_t value) const { Identified().FourBytes(value); }
  void Put(const std::string& value) const { Identified().Binary(value); }
  WireWriter& Identified() const {
    out.Byte(row.id);
    return out;
  }
};

}  // namespace

void WireReader::Fail(ReasonCode code, std::string_view why) {
  if (!fault_) fault_ = Fault{code, why};
  rest_ = {};
}

std::string_view WireReader::Take(size_t bytes) {
  if (bytes > rest_.size()) {
    Malformed("the packet ends within a field");
    return {};
  }
  const std::string_view part = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return part;
}

uint8_t WireReader::Byte() {
  const std::string_view part = Take(1);
  return part.empty() ? uint8_t{0} : static_cast<uint8_t>(part.front());
}

uint16_t WireReader::TwoBytes() {
  const uint8_t high = Byte();
  return static_cast<uint16_t>(high << 8 | Byte());
}

uint32_t WireReader::FourBytes() {
  const uint32_t high = TwoBytes();
  return high << 16 | TwoBytes();
}

uint32_t WireReader::VariableByteInteger() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const uint8_t byte = Byte();
    value |= static_cast<uint32_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) != 0) continue;
    if (i > 0 && byte == 0) Malformed("a variable byte integer is longer than it need be");
    return ok() ? value : 0;
  }
  Malformed("a variable byte integer has more than four bytes");
  return 0;
}

std::string WireReader::Binary() { return std::string(Take(TwoBytes())); }

std::string WireReader::Utf8() {
  const std::string_view text = Take(TwoBytes());
  if (!IsValidUtf8(text)) Malformed("a string is not well-formed UTF-8");
  if (text.find('\0') != std::string_view::npos) Malformed("a string holds U+0000");
  return ok() ? std::string(text) : std::string();
}

void WireWriter::VariableByteInteger(size_t value) {
  if (value > kMaxVariableByteInteger) {
    ok_ = false;
    return;
  }
  do {
    const auto low = static_cast<unsigned>(value & 0x7F);
    value >>= 7;
    Byte(value > 0 ? low | 0x80u : low);
  } while (value > 0);
}

void WireWriter::Binary(std::string_view bytes) {
  if (bytes.size() > 0xFFFF) {
    ok_ = false;
    return;
  }
  TwoBytes(static_cast<uint16_t>(bytes.size()));
  Raw(bytes);
}

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
