#include "mqtt/codec.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "mqtt/packet_codecs.h"

namespace tutti::mqtt {
namespace {

// The flags that packets of a type have (table 2-2); PUBLISH has its own.
uint8_t FixedFlags(PacketType type) {
  switch (type) {
    case PacketType::kPubrel:
    case PacketType::kSubscribe:
    case PacketType::kUnsubscribe:
      return 2;
    default:
      return 0;
  }
}

// Whether the ids, topics and lists are there that the packet cannot do without.
struct IsComplete {
  bool operator()(const Publish& packet) const {
    return (!packet.topic.empty() || packet.properties.topic_alias) && packet.qos <= 2 &&
           (packet.qos == 0 || packet.packet_id != 0);
  }
  bool operator()(const Subscribe& packet) const {
    return packet.packet_id != 0 && !packet.subscriptions.empty();
  }
  bool operator()(const Unsubscribe& packet) const {
    return packet.packet_id != 0 && !packet.filters.empty();
  }
  template <typename Other>
  bool operator()([[maybe_unused]] const Other& packet) const {
    if constexpr (requires { packet.packet_id; }) return packet.packet_id != 0;
    return true;
  }
};

Status Inexpressible(const Packet& packet) {
  return InvalidArgument("invalid_value", std::string(PacketTypeName(TypeOf(packet))) +
                                              " packet cannot be encoded: a field is missing or "
                                              "longer than 65,535 bytes, or the packet exceeds 256 "
                                              "MiB");
}

}  // namespace

size_t FrameSplitter::Feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && state_ != State::kDone && state_ != State::kFailed) {
    if (state_ == State::kBody) {
      const size_t part = std::min(bytes.size() - taken, length_ - frame_.body.size());
      // Grows as bytes come, not as they are announced.
      frame_.body.append(bytes, taken, part);
      taken += part;
      if (frame_.body.size() == length_) state_ = State::kDone;
      continue;
    }
    const auto byte = static_cast<uint8_t>(bytes[taken++]);
    if (state_ == State::kType) {
      OnType(byte);
    } else {
      OnLength(byte);
    }
  }
  return taken;
}

void FrameSplitter::OnType(uint8_t byte) {
  frame_.type = static_cast<PacketType>(byte >> 4);
  frame_.flags = byte & 0x0F;
  if (byte >> 4 == 0) return Fail(ReasonCode::kMalformedPacket, "packet type 0");
  if (limits_.only && frame_.type != *limits_.only) {
    return Fail(ReasonCode::kProtocolError, "a packet of this type may not come now");
  }
  if (frame_.type != PacketType::kPublish && frame_.flags != FixedFlags(frame_.type)) {
    return Fail(ReasonCode::kMalformedPacket, "flags that this type of packet does not have");
  }
  state_ = State::kLength;
}

void FrameSplitter::OnLength(uint8_t byte) {
  length_ |= static_cast<size_t>(byte & 0x7F) << (7 * length_bytes_);
  ++length_bytes_;
  if ((byte & 0x80) != 0) {
    if (length_bytes_ == 4) Fail(ReasonCode::kMalformedPacket, "a remaining length of five bytes");
    return;
  }
  frame_.minimal_length = byte != 0 || length_bytes_ == 1;
  if (1 + static_cast<size_t>(length_bytes_) + length_ > limits_.packet_bytes) {
    return Fail(ReasonCode::kPacketTooLarge, "a packet larger than is taken");
  }
  state_ = length_ > 0 ? State::kBody : State::kDone;
}

void FrameSplitter::Fail(ReasonCode code, std::string_view why) {
  state_ = State::kFailed;
  fault_ = Fault{code, why};
}

Frame FrameSplitter::Take() {
  CHECK(done());
  state_ = State::kType;
  length_ = 0;
  length_bytes_ = 0;
  return std::exchange(frame_, Frame());
}

Decoded Decode(Version version, const Frame& frame) {
  WireReader in(frame.body);
  Decoded decoded;
  if (frame.type == PacketType::kAuth && version == Version::k311) {
    decoded.fault = Fault{ReasonCode::kMalformedPacket, "AUTH does not exist in MQTT 3.1.1"};
    return decoded;
  }
  if (frame.type != PacketType::kConnect && version == Version::k5 && !frame.minimal_length) {
    in.Malformed("a remaining length that is longer than it need be");
  }
  decoded.packet = ReadBody(version, frame, in);
  if (!in.empty()) in.Malformed("bytes behind the packet's last field");
  decoded.fault = in.fault();
  return decoded;
}

Version VersionToAnswer(const Frame& connect) {
  WireReader in(connect.body);
  in.Utf8();
  const uint8_t level = in.Byte();
  return in.ok() && level >= static_cast<uint8_t>(Version::k5) && level < 0x80 ? Version::k5
                                                                               : Version::k311;
}

Result<std::string> Encode(Version version, const Packet& packet) {
  if (const auto* connect = std::get_if<Connect>(&packet)) version = connect->version;
  if (version == Version::k311 && std::holds_alternative<Auth>(packet)) {
    return Inexpressible(packet);
  }
  WireWriter body;
  WriteBody(version, packet, body);
  WireWriter out;
  const auto* const publish = std::get_if<Publish>(&packet);
  const unsigned flags = publish != nullptr ? PublishFlags(*publish) : FixedFlags(TypeOf(packet));
  out.Byte(static_cast<unsigned>(TypeOf(packet)) << 4 | flags);
  out.VariableByteInteger(body.bytes().size());
  if (!body.ok() || !out.ok() || !std::visit(IsComplete(), packet)) return Inexpressible(packet);
  out.Raw(body.bytes());
  return out.Release();
}

}  // namespace tutti::mqtt
