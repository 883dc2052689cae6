#include "server/mqtt/bridge/session.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "mqtt/message_packet.h"

namespace tutti::mqtt::bridge {
namespace {

using std::chrono::seconds;

// The n-th SUBSCRIBE of a connection has the id 60,001 + n, where PUBLISH has none (outbox.cc).
constexpr uint16_t kFirstSubscribeId = 60'001;
constexpr size_t kFiltersOfOnePacket = 32;

// The error for the operator when the broker refuses the connection.
Status RefusedFor(ReasonCode reason) {
  switch (reason) {
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
                                               std::to_string(static_cast<int>(reason)));
  }
}

// Why the broker has thrown us out (5.0).
Status ThrownOutFor(ReasonCode reason) {
  if (reason == ReasonCode::kSessionTakenOver) {
    return Status(StatusCode::kAborted, "broker_taken_over",
                  "another client has connected with our mqtt.client_id, which must be one "
                  "server's alone");
  }
  return Unavailable("broker_disconnected", "the broker has ended the connection: reason code " +
                                                std::to_string(static_cast<int>(reason)));
}

Status StatusOf(const ClientProtocol::End& end) {
  using How = ClientProtocol::End::How;
  switch (end.how) {
    case How::kRefused:
      return RefusedFor(end.reason);
    case How::kDisconnected:
      return ThrownOutFor(end.reason);
    case How::kSilent:
      return Unavailable("broker_silent", "the broker has not answered a ping for 10 s");
    case How::kBroken:
      break;
  }
  return Status(StatusCode::kInternal, "broker_protocol",
                "the broker breaks the protocol: " + end.why);
}

}  // namespace

Session::Session(const Dependencies& dependencies)
    : deps_(dependencies),
      protocol_({.version = deps_.options->version, .packet_bytes = deps_.options->packet_bytes}) {}

void Session::Open(TimePoint now, std::string& out) {
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
  protocol_.Open(connect, now, out);
}

Status Session::On(const Frame& frame, TimePoint now, std::string& out) {
  ClientProtocol::Event event = protocol_.Take(frame, now, out);
  if (const auto* end = std::get_if<ClientProtocol::End>(&event)) return StatusOf(*end);
  if (auto* publish = std::get_if<Publish>(&event)) return OnPublish(std::move(*publish), now, out);
  if (const auto* connack = std::get_if<Connack>(&event)) OnConnack(*connack, now, out);
  if (const auto* puback = std::get_if<Puback>(&event)) OnPuback(*puback, now);
  const auto* suback = std::get_if<Suback>(&event);
  if (suback == nullptr || OnSuback(*suback)) return OkStatus();
  return StatusOf(
      protocol_.Break(ReasonCode::kProtocolError, "SUBACK that answers no SUBSCRIBE", out));
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

void Session::OnConnack(const Connack& packet, TimePoint now, std::string& out) {
  const Properties& properties = packet.properties;
  resumed_ = packet.session_present;
  BrokerTakes takes;
  takes.version = deps_.options->version;
  takes.in_flight =
      std::min<size_t>(deps_.options->in_flight, properties.receive_maximum.value_or(65535));
  takes.packet_bytes = std::min<size_t>(deps_.options->publish_bytes,
                                        properties.maximum_packet_size.value_or(uint32_t{1} << 31));
  takes.session_resumed = resumed_;
  takes.retained = properties.retain_available.value_or(true);
  takes.qos1 = properties.maximum_qos.value_or(true);
  Subscribe(now, out);
  deps_.outbox->Connected(takes);
}

void Session::Subscribe(TimePoint now, std::string& out) {
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
    protocol_.Send(packet, now, out);
  }
}

bool Session::OnSuback(const Suback& packet) {
  const auto& filters = deps_.inbox->filters();
  const size_t first = (packet.packet_id - size_t{kFirstSubscribeId}) * kFiltersOfOnePacket;
  if (subscribes_left_ == 0 || packet.packet_id < kFirstSubscribeId || first >= filters.size() ||
      packet.reasons.size() != std::min(filters.size() - first, kFiltersOfOnePacket)) {
    return false;
  }
  for (size_t i = 0; i < packet.reasons.size(); ++i) {
    if (!IsFailure(packet.reasons[i]) || deps_.log == nullptr) continue;
    deps_.log->Error(
        "mqtt.bridge.subscription_refused",
        {{"filter", filters[first + i]}, {"reason_code", static_cast<int>(packet.reasons[i])}});
  }
  --subscribes_left_;
  return true;
}

Status Session::OnPublish(Publish packet, TimePoint now, std::string& out) {
  const uint16_t packet_id = packet.packet_id;
  if (deps_.inbox->Receive(packet_id, FromPublish(std::move(packet), now), now)) return OkStatus();
  return StatusOf(
      protocol_.Break(ReasonCode::kPacketIdInUse, "two messages under one packet id", out));
}

Status Session::Tick(TimePoint now, bool reading, std::string& out) {
  const std::optional<ClientProtocol::End> end = protocol_.Tick(now, reading, out);
  return end.has_value() ? StatusOf(*end) : OkStatus();
}

void Session::Pump(TimePoint now, size_t max_bytes, std::string& out) {
  if (!connected()) return;
  for (const uint16_t packet_id : deps_.inbox->Settle(now)) {
    Puback packet;
    packet.packet_id = packet_id;
    protocol_.Send(packet, now, out);
  }
  while (out.size() < max_bytes && deps_.outbox->SendNext(now, out)) protocol_.NoteSent(now);
}

void Session::Lost() {
  protocol_.Close();
  resumed_ = false;
  subscribes_left_ = 0;
  deps_.inbox->Lost();
  deps_.outbox->Lost();
}

Duration ReconnectBackoff::Lost(TimePoint now) {
  const bool stable = connected_ != TimePoint::max() && now - connected_ >= limits_.stable;
  connected_ = TimePoint::max();
  due_ = stable || due_ == Duration::zero() ? limits_.first : std::min(due_ * 2, limits_.most);
  return Duration(random_.Between((due_ / 2).count(), due_.count()));
}

}  // namespace tutti::mqtt::bridge
