#include "server/mqtt/bridge/session.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "mqtt/codec.h"
#include "server/mqtt/bridge/message_packet.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::seconds;

// The n-th SUBSCRIBE of a connection has the id 60,001 + n, where PUBLISH has none (outbox.cc).
constexpr uint16_t kFirstSubscribeId = 60'001;
constexpr size_t kFiltersOfOnePacket = 32;
// A ping is answered at once, or behind what the broker is sending us.
constexpr Duration kPingTime = seconds(10);
// Maximum size of CONNACK.
constexpr size_t kConnackBytes = 64 << 10;

// The error for the operator when the broker refuses the connection.
Status RefusedBy(const Connack& packet) {
  switch (packet.reason) {
    case ReasonCode::kBadUserNameOrPassword:
    case ReasonCode::kNotAuthorized:
    case ReasonCode::kBadAuthenticationMethod:
    case ReasonCode::kBanned:
      return Status(StatusCode::kUnauthenticated, "broker_credentials",
                    "the broker refuses the user name or the password (mqtt.username, "
                    "mqtt.password_file)");
    case ReasonCode::kUnsupportedVersion:
      return Status(StatusCode::kFailedPrecondition, "broker_version",
                    "the broker does not speak this version of MQTT: try mqtt.version");
    case ReasonCode::kClientIdNotValid:
      return Status(StatusCode::kFailedPrecondition, "broker_client_id",
                    "the broker refuses mqtt.client_id");
    default:
      return Unavailable("broker_refused", "the broker lets nobody in: reason code " +
                                               std::to_string(static_cast<int>(packet.reason)));
  }
}

// Why the broker has thrown us out (5.0).
Status ThrownOut(const Disconnect& packet) {
  if (packet.reason == ReasonCode::kSessionTakenOver) {
    return Status(StatusCode::kAborted, "broker_taken_over",
                  "another client has connected with our mqtt.client_id, which must be one "
                  "server's alone");
  }
  return Unavailable("broker_disconnected", "the broker has ended the connection: reason code " +
                                                std::to_string(static_cast<int>(packet.reason)));
}

// What Mosquitto 2.0 says of a message that is larger than it takes, before it hangs up: 0x95, a
// reason that the standard does not know in a PUBACK (5.0, 3.4.2.1). Taken for a fault, the message
// would be sent again and end every connection.
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

void Session::Open(TimePoint now, std::string& out) {
  CHECK(phase_ == Phase::kClosed);
  const BridgeOptions& options = *deps_.options;
  Connect connect;
  connect.version = options.version;
  connect.clean_start = false;
  connect.client_id = options.client_id;
  connect.keep_alive_s =
      static_cast<uint16_t>(std::chrono::duration_cast<seconds>(options.keep_alive).count());
  if (!deps_.credentials->username.empty()) connect.user_name = deps_.credentials->username;
  if (deps_.credentials->has_password) connect.password = deps_.credentials->password;
  if (options.will) connect.will = ToWill(*options.will);
  connect.properties.session_expiry_s = static_cast<uint32_t>(
      std::clamp<int64_t>(std::chrono::duration_cast<seconds>(options.session_expiry).count(), 0,
                          std::numeric_limits<uint32_t>::max()));
  connect.properties.receive_maximum = options.receive_maximum;
  connect.properties.maximum_packet_size = static_cast<uint32_t>(options.packet_bytes);
  phase_ = Phase::kConnecting;
  keep_alive_ = options.keep_alive;
  sent_ = now;
  Send(connect, out);
}

Status Session::On(const Frame& frame, TimePoint now, std::string& out) {
  if (pinged_ != TimePoint::max()) pinged_ = now;  // its answer waits behind this, perhaps
  Decoded decoded = Decode(deps_.options->version, frame);
  if (!decoded.ok() && connected()) {
    if (const auto puback = LenientPuback(frame)) decoded = {*puback, std::nullopt};
  }
  if (!decoded.ok()) return Broken(decoded.fault->code, decoded.fault->why, out);
  if (auto* connack = std::get_if<Connack>(&decoded.packet)) {
    if (phase_ == Phase::kConnecting) return OnConnack(*connack, now, out);
  } else if (phase_ == Phase::kConnecting) {
    return Broken(ReasonCode::kProtocolError, "a packet before CONNACK", out);
  } else if (auto* publish = std::get_if<Publish>(&decoded.packet)) {
    return OnPublish(std::move(*publish), now, out);
  } else if (auto* puback = std::get_if<Puback>(&decoded.packet)) {
    OnPuback(*puback, now);
    return OkStatus();
  } else if (auto* suback = std::get_if<Suback>(&decoded.packet)) {
    if (OnSuback(*suback)) return OkStatus();
    return Broken(ReasonCode::kProtocolError, "SUBACK that answers no SUBSCRIBE", out);
  } else if (std::holds_alternative<Pingresp>(decoded.packet)) {
    pinged_ = TimePoint::max();
    return OkStatus();
  } else if (auto* disconnect = std::get_if<Disconnect>(&decoded.packet)) {
    if (deps_.options->version == Version::k5) return ThrownOut(*disconnect);
  }
  return Broken(ReasonCode::kProtocolError, "a packet that a broker may not send", out);
}

void Session::OnPuback(const Puback& packet, TimePoint now) {
  const Status status = StatusOfPuback(packet.reason);
  if (status.code() == StatusCode::kPermissionDenied) {
    const std::string topic = deps_.outbox->TopicOf(packet.packet_id);
    deps_.outbox->LeaveAlone(topic, now);
    if (deps_.log != nullptr) {
      deps_.log->Error(
          "mqtt.bridge.publish_refused",
          {{"topic", topic},
           {"reason", "0x87"},
           {"why", "the broker's access rules (ACL) do not let this user publish there"},
           {"left_alone_s", ToSeconds(RefusedTopics::kLeftAlone)}});
    }
  }
  // An acknowledgement of an expired message finds nothing, which is harmless.
  deps_.outbox->Acknowledge(packet.packet_id, status);
}

Status Session::OnConnack(const Connack& packet, TimePoint now, std::string& out) {
  if (packet.reason != ReasonCode::kSuccess) return RefusedBy(packet);
  const Properties& said = packet.properties;
  resumed_ = packet.session_present;
  if (said.server_keep_alive_s) keep_alive_ = seconds(*said.server_keep_alive_s);
  BrokerTakes takes;
  takes.version = deps_.options->version;
  takes.in_flight =
      std::min<size_t>(deps_.options->in_flight, said.receive_maximum.value_or(65535));
  takes.packet_bytes = std::min<size_t>(deps_.options->publish_bytes,
                                        said.maximum_packet_size.value_or(uint32_t{1} << 31));
  takes.session_resumed = resumed_;
  takes.retained = said.retain_available.value_or(true);
  takes.qos1 = said.maximum_qos.value_or(true);
  sent_ = now;
  Subscribe(out);
  deps_.outbox->Connected(takes);
  return OkStatus();
}

void Session::Subscribe(std::string& out) {
  std::span<const std::string> filters = deps_.inbox->filters();
  subscribes_left_ = 0;
  while (!filters.empty()) {
    mqtt::Subscribe packet;
    packet.packet_id = static_cast<uint16_t>(kFirstSubscribeId + subscribes_left_++);
    for (const std::string& filter : filters.first(std::min(filters.size(), kFiltersOfOnePacket))) {
      Subscription subscription;
      subscription.filter = filter;
      subscription.qos = 1;
      packet.subscriptions.push_back(std::move(subscription));
    }
    filters = filters.subspan(packet.subscriptions.size());
    Send(packet, out);
  }
  phase_ = subscribes_left_ == 0 ? Phase::kReady : Phase::kSubscribing;
}

bool Session::OnSuback(const Suback& packet) {
  const auto& filters = deps_.inbox->filters();
  const size_t first = (packet.packet_id - size_t{kFirstSubscribeId}) * kFiltersOfOnePacket;
  if (phase_ != Phase::kSubscribing || packet.packet_id < kFirstSubscribeId ||
      first >= filters.size() ||
      packet.reasons.size() != std::min(filters.size() - first, kFiltersOfOnePacket)) {
    return false;
  }
  for (size_t i = 0; i < packet.reasons.size(); ++i) {
    if (!IsFailure(packet.reasons[i]) || deps_.log == nullptr) continue;
    deps_.log->Error(
        "mqtt.bridge.subscription_refused",
        {{"filter", filters[first + i]}, {"reason_code", static_cast<int>(packet.reasons[i])}});
  }
  if (--subscribes_left_ == 0) phase_ = Phase::kReady;
  return true;
}

Status Session::OnPublish(Publish packet, TimePoint now, std::string& out) {
  if (packet.qos > 1)
    return Broken(ReasonCode::kProtocolError, "QoS 2, which was not subscribed to", out);
  if (packet.topic.empty() || packet.properties.topic_alias) {
    return Broken(ReasonCode::kTopicAliasInvalid, "a topic alias, of which none is allowed", out);
  }
  const uint16_t packet_id = packet.packet_id;
  if (!deps_.inbox->Receive(packet_id, FromPublish(std::move(packet), now), now)) {
    return Broken(ReasonCode::kPacketIdInUse, "two messages under one packet id", out);
  }
  return OkStatus();
}

Status Session::Tick(TimePoint now, bool reading, std::string& out) {
  if (!connected()) return OkStatus();
  if (pinged_ != TimePoint::max() && !reading) pinged_ = now;
  if (pinged_ != TimePoint::max() && now - pinged_ >= kPingTime) {
    return Unavailable("broker_silent", "the broker has not answered a ping for 10 s");
  }
  if (keep_alive_ > Duration::zero() && pinged_ == TimePoint::max() && now - sent_ >= keep_alive_) {
    pinged_ = sent_ = now;
    Send(Pingreq(), out);
  }
  return OkStatus();
}

TimePoint Session::due() const {
  if (!connected()) return TimePoint::max();
  if (pinged_ != TimePoint::max()) return pinged_ + kPingTime;
  return keep_alive_ > Duration::zero() ? sent_ + keep_alive_ : TimePoint::max();
}

void Session::Pump(TimePoint now, size_t max_bytes, std::string& out) {
  if (!connected()) return;
  for (const uint16_t packet_id : deps_.inbox->Settle(now)) {
    Puback packet;
    packet.packet_id = packet_id;
    Send(packet, out);
    sent_ = now;
  }
  while (out.size() < max_bytes && deps_.outbox->SendNext(now, out)) sent_ = now;
}

void Session::Goodbye(std::string& out) {
  if (connected()) Send(Disconnect(), out);
}

void Session::Lost() {
  phase_ = Phase::kClosed;
  pinged_ = TimePoint::max();
  resumed_ = false;
  deps_.inbox->Lost();
  deps_.outbox->Lost();
}

FrameLimits Session::limits() const {
  FrameLimits limits;
  limits.packet_bytes = deps_.options->packet_bytes;
  if (phase_ == Phase::kConnecting) {
    limits.packet_bytes = kConnackBytes;
    limits.only = PacketType::kConnack;
  }
  return limits;
}

void Session::Send(const Packet& packet, std::string& out) {
  const Result<std::string> bytes = Encode(deps_.options->version, packet);
  CHECK(bytes.ok()) << "options were checked, all else is ours: " << bytes.status().ToString();
  out += *bytes;
}

Status Session::Broken(ReasonCode code, std::string_view why, std::string& out) {
  if (deps_.options->version == Version::k5 && phase_ != Phase::kConnecting) {
    Disconnect packet;
    // Only some reason codes are allowed in a client's DISCONNECT (5.0, 3.14.2.1).
    packet.reason = ReasonCodeFits(static_cast<uint8_t>(code), PacketType::kDisconnect)
                        ? code
                        : ReasonCode::kProtocolError;
    Send(packet, out);
  }
  return Status(StatusCode::kInternal, "broker_protocol",
                "the broker breaks the protocol: " + std::string(why));
}

}  // namespace tutti::mqtt::bridge
