#include "mqtt/client_protocol.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "mqtt/codec.h"

namespace tutti::mqtt {
namespace {

constexpr size_t kMaxConnackBytes = 64 << 10;

// Mosquitto 2.0 answers a message above its size limit with 0x95, a reason that the standard does
// not allow in a PUBACK (5.0, 3.4.2.1), and disconnects. Treated as a fault, the message would be
// sent again and end every connection.
std::optional<Puback> LenientPuback(const Frame& frame) {
  if (frame.type != PacketType::kPuback || frame.body.size() < 3) return std::nullopt;
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(frame.body[at]); };
  Puback packet;
  packet.packet_id = static_cast<uint16_t>(byte(0) << 8 | byte(1));
  packet.reason = static_cast<ReasonCode>(byte(2));
  if (packet.reason != ReasonCode::kPacketTooLarge) return std::nullopt;
  return packet;
}

}  // namespace

void ClientProtocol::Open(const Connect& connect, TimePoint now, std::string& out) {
  CHECK(state_ == State::kClosed);
  state_ = State::kConnecting;
  keep_alive_ = std::chrono::seconds(connect.keep_alive_s);
  Send(connect, now, out);
}

ClientProtocol::Event ClientProtocol::Take(const Frame& frame, TimePoint now, std::string& out) {
  if (pinged_ != TimePoint::max()) pinged_ = now;  // its answer waits behind this, perhaps
  Decoded decoded = Decode(options_.version, frame);
  if (!decoded.ok() && connected()) {
    if (const auto puback = LenientPuback(frame)) decoded = {*puback, std::nullopt};
  }
  if (!decoded.ok()) return Break(decoded.fault->code, decoded.fault->why, out);
  const PacketType type = TypeOf(decoded.packet);
  if ((type == PacketType::kConnack) == connected()) {
    return Break(ReasonCode::kProtocolError,
                 connected() ? "a second CONNACK" : "a packet before CONNACK", out);
  }
  switch (type) {
    case PacketType::kConnack:
      return OnConnack(std::get<Connack>(std::move(decoded.packet)), now);
    case PacketType::kPublish: {
      auto& publish = std::get<Publish>(decoded.packet);
      if (publish.qos > 1)
        return Break(ReasonCode::kProtocolError, "QoS 2, which was not subscribed to", out);
      if (publish.topic.empty() || publish.properties.topic_alias) {
        return Break(ReasonCode::kTopicAliasInvalid, "a topic alias, of which none is allowed",
                     out);
      }
      return std::move(publish);
    }
    case PacketType::kPuback:
      return std::get<Puback>(std::move(decoded.packet));
    case PacketType::kSuback:
      return std::get<Suback>(std::move(decoded.packet));
    case PacketType::kPingresp:
      pinged_ = TimePoint::max();
      return {};
    case PacketType::kDisconnect: {
      const auto& packet = std::get<Disconnect>(decoded.packet);
      if (options_.version != Version::k5) break;
      return End{End::How::kDisconnected, packet.reason,
                 packet.properties.reason_string.value_or("")};
    }
    default:
      break;
  }
  return Break(ReasonCode::kProtocolError, "a packet that a server may not send", out);
}

ClientProtocol::Event ClientProtocol::OnConnack(Connack packet, TimePoint now) {
  if (packet.reason != ReasonCode::kSuccess)
    return End{End::How::kRefused, packet.reason, packet.properties.reason_string.value_or("")};
  if (packet.properties.server_keep_alive_s)
    keep_alive_ = std::chrono::seconds(*packet.properties.server_keep_alive_s);
  state_ = State::kConnected;
  sent_ = now;
  return packet;
}

std::optional<ClientProtocol::End> ClientProtocol::Tick(TimePoint now, bool reading,
                                                        std::string& out) {
  if (!connected()) return std::nullopt;
  if (pinged_ != TimePoint::max() && !reading) pinged_ = now;
  if (pinged_ != TimePoint::max() && now - pinged_ >= options_.ping_time)
    return End{End::How::kSilent, ReasonCode::kSuccess, ""};
  if (pinged_ == TimePoint::max() && now >= due()) {
    pinged_ = now;
    Send(Pingreq(), now, out);
  }
  return std::nullopt;
}

TimePoint ClientProtocol::due() const {
  if (!connected()) return TimePoint::max();
  if (pinged_ != TimePoint::max()) return pinged_ + options_.ping_time;
  if (keep_alive_ == Duration::zero()) return TimePoint::max();
  return sent_ + keep_alive_ / options_.pings_per_keep_alive;
}

void ClientProtocol::Send(const Packet& packet, TimePoint now, std::string& out) {
  const Result<std::string> bytes = Encode(options_.version, packet);
  CHECK(bytes.ok()) << "options were checked, all else is ours: " << bytes.status().ToString();
  out += *bytes;
  sent_ = now;
}

void ClientProtocol::SendGoodbye(std::string& out) {
  if (connected()) Send(Disconnect(), sent_, out);
}

ClientProtocol::End ClientProtocol::Break(ReasonCode code, std::string_view why, std::string& out) {
  if (options_.version == Version::k5 && connected()) {
    Disconnect packet;
    // Only some reason codes are allowed in a client's DISCONNECT (5.0, 3.14.2.1).
    packet.reason = ReasonCodeFits(static_cast<uint8_t>(code), PacketType::kDisconnect)
                        ? code
                        : ReasonCode::kProtocolError;
    Send(packet, sent_, out);
  }
  return {End::How::kBroken, code, std::string(why)};
}

void ClientProtocol::Close() {
  state_ = State::kClosed;
  pinged_ = TimePoint::max();
}

FrameLimits ClientProtocol::limits() const {
  if (state_ == State::kConnecting)
    return {.packet_bytes = kMaxConnackBytes, .only = PacketType::kConnack};
  return {.packet_bytes = options_.packet_bytes, .only = std::nullopt};
}

}  // namespace tutti::mqtt
