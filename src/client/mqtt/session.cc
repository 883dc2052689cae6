#include "client/mqtt/session.h"

#include <algorithm>
#include <limits>

#include "mqtt/codec.h"

namespace tutti::client {
namespace {

using mqtt::ReasonCode;

constexpr uint16_t kSubscribeId = 1;  // messages have those above
constexpr size_t kMaxInFlight = 1000;
constexpr Duration kPingTime = std::chrono::seconds(20);

std::string Numbered(std::string text, ReasonCode reason, const mqtt::Properties& properties) {
  text += " (reason code " + std::to_string(static_cast<int>(reason)) + ")";
  if (properties.reason_string.has_value()) text += ": " + properties.reason_string->substr(0, 200);
  return text;
}

// The error for the user of the command when the server refuses the connection.
Status NotLetIn(const mqtt::Connack& packet, bool named) {
  switch (packet.reason) {
    case ReasonCode::kBadUserNameOrPassword:
    case ReasonCode::kNotAuthorized:
    case ReasonCode::kBanned:
      return {StatusCode::kUnauthenticated, "invalid_api_key",
              named ? "the server refuses the user name or the password"
                    : "the server lets nobody in without a user name"};
    case ReasonCode::kUnsupportedVersion:
      return {StatusCode::kUnimplemented, "unsupported", "the server does not speak MQTT 5"};
    default:
      return Unavailable("unavailable",
                         Numbered("the server lets nobody in", packet.reason, packet.properties));
  }
}

Status Refusal(ReasonCode reason, const mqtt::Properties& properties) {
  switch (reason) {
    case ReasonCode::kNoMatchingSubscribers:
      return NotFound("not_found", "nobody listens there");
    case ReasonCode::kNotAuthorized:
      return {StatusCode::kPermissionDenied, "insufficient_scope",
              "the server does not let this user speak there"};
    case ReasonCode::kQuotaExceeded:
      return ResourceExhausted("overloaded", "the server takes no more messages now");
    case ReasonCode::kPacketTooLarge:
      return InvalidArgument("request_too_large", "the message is larger than the server takes");
    default:
      return Unavailable("unavailable",
                         Numbered("the server refuses the message", reason, properties));
  }
}

Status Broken(std::string_view why) {
  return Unavailable("bad_response", "the server broke the protocol: " + std::string(why));
}

}  // namespace

MqttSession::MqttSession(const MqttSessionOptions& options)
    : options_(options),
      splitter_(mqtt::FrameLimits{.packet_bytes = options.packet_bytes, .only = std::nullopt}),
      pace_(options.min_interval) {}

void MqttSession::Open(TimePoint now, std::string& out) {
  mqtt::Connect connect;
  connect.keep_alive_s = options_.login.keep_alive_s;
  connect.client_id = options_.login.client_id;
  connect.user_name = options_.login.user;
  connect.password = options_.login.password;
  connect.properties.maximum_packet_size = static_cast<uint32_t>(options_.packet_bytes);
  keep_alive_ = std::chrono::seconds(options_.login.keep_alive_s);
  Send(connect, now, out);
}

Status MqttSession::On(std::string_view bytes, TimePoint now, std::string& out,
                       std::vector<mqtt::Publish>& messages) {
  while (true) {
    bytes.remove_prefix(splitter_.Feed(bytes));
    if (splitter_.fault().has_value()) return Broken(splitter_.fault()->why);
    if (!splitter_.done()) return OkStatus();
    RETURN_IF_ERROR(Take(splitter_.Take(), now, out, messages));
  }
}

Status MqttSession::Take(const mqtt::Frame& frame, TimePoint now, std::string& out,
                         std::vector<mqtt::Publish>& messages) {
  mqtt::Decoded decoded = mqtt::Decode(mqtt::Version::k5, frame);
  if (!decoded.ok()) return Broken(decoded.fault->why);
  if (const auto* connack = std::get_if<mqtt::Connack>(&decoded.packet))
    return connected_ ? Broken("a second CONNACK") : OnConnack(*connack);
  if (!connected_) return Broken("a packet before CONNACK");
  if (auto* publish = std::get_if<mqtt::Publish>(&decoded.packet)) {
    if (publish->qos > 1) return Broken("QoS 2, which was not asked for");
    if (publish->topic.empty()) return Broken("a topic alias, which was not asked for");
    if (publish->qos == 1) {
      mqtt::Puback ack;
      ack.packet_id = publish->packet_id;
      Send(ack, now, out);
    }
    messages.push_back(std::move(*publish));
  } else if (const auto* puback = std::get_if<mqtt::Puback>(&decoded.packet)) {
    return OnPuback(*puback);
  } else if (const auto* suback = std::get_if<mqtt::Suback>(&decoded.packet)) {
    const ReasonCode reason = suback->reasons.at(0);
    subscribed_ = mqtt::IsFailure(reason)
                      ? Status(StatusCode::kPermissionDenied, "insufficient_scope",
                               Numbered("the server does not let this user listen there", reason,
                                        suback->properties))
                      : OkStatus();
  } else if (std::holds_alternative<mqtt::Pingresp>(decoded.packet)) {
    pinged_.reset();
  } else if (const auto* disconnect = std::get_if<mqtt::Disconnect>(&decoded.packet)) {
    return Unavailable("connection_closed", Numbered("the server has ended the connection",
                                                     disconnect->reason, disconnect->properties));
  } else {
    return Broken("a packet that a server may not send");
  }
  return OkStatus();
}

Status MqttSession::OnConnack(const mqtt::Connack& packet) {
  if (packet.reason != ReasonCode::kSuccess)
    return NotLetIn(packet, options_.login.user.has_value());
  const mqtt::Properties& said = packet.properties;
  if (said.server_keep_alive_s) keep_alive_ = std::chrono::seconds(*said.server_keep_alive_s);
  max_in_flight_ = std::min<size_t>(kMaxInFlight, said.receive_maximum.value_or(65'535));
  max_packet_bytes_ = said.maximum_packet_size.value_or(256u << 20);
  connected_ = true;
  return OkStatus();
}

Status MqttSession::OnPuback(const mqtt::Puback& packet) {
  const auto sent = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const Sent& each) { return each.id == packet.packet_id; });
  if (sent == in_flight_.end()) return Broken("PUBACK of no message");
  if (packet.reason != ReasonCode::kSuccess)
    refused_.emplace_back(std::move(sent->message), Refusal(packet.reason, packet.properties));
  in_flight_.erase(sent);
  return OkStatus();
}

void MqttSession::Subscribe(const std::string& filter, bool retained, TimePoint now,
                            std::string& out) {
  subscribed_.reset();
  mqtt::Subscribe packet;
  packet.packet_id = kSubscribeId;
  mqtt::Subscription subscription;
  subscription.filter = filter;
  subscription.qos = 1;
  if (!retained) subscription.retain_handling = 2;  // what was kept is no answer to us
  packet.subscriptions.push_back(std::move(subscription));
  Send(packet, now, out);
}

Status MqttSession::Push(MqttSend message) {
  if (waiting_.size() + in_flight_.size() >= options_.max_waiting) {
    return ResourceExhausted(
        "overloaded", std::to_string(options_.max_waiting) + " messages wait to be sent already");
  }
  waiting_.push_back(std::move(message));
  return OkStatus();
}

size_t MqttSession::DropUnsent() { return std::exchange(waiting_, {}).size(); }

void MqttSession::Pump(TimePoint now, std::string& out) {
  while (due() <= now) {
    Sent sent{FreeId(), std::move(waiting_.front())};
    waiting_.pop_front();
    mqtt::Publish publish;
    publish.topic = sent.message.topic;
    publish.payload = sent.message.payload;
    publish.qos = 1;
    publish.packet_id = sent.id;
    publish.properties.payload_is_text = true;
    publish.properties.content_type = "application/json";
    if (sent.message.expiry_s > 0) publish.properties.message_expiry_s = sent.message.expiry_s;
    if (!sent.message.correlation.empty())
      publish.properties.correlation_data = sent.message.correlation;
    const Result<std::string> bytes = mqtt::Encode(mqtt::Version::k5, publish);
    if (!bytes.ok()) {
      refused_.emplace_back(std::move(sent.message), bytes.status());
      continue;
    }
    if (bytes->size() > max_packet_bytes_) {
      refused_.emplace_back(std::move(sent.message),
                            Refusal(ReasonCode::kPacketTooLarge, mqtt::Properties()));
      continue;
    }
    out += *bytes;
    sent_ = now;
    pace_.Sent(now);
    in_flight_.push_back(std::move(sent));
  }
}

TimePoint MqttSession::due() const {
  const bool may = connected_ && !waiting_.empty() && in_flight_.size() < max_in_flight_;
  return may ? pace_.due() : TimePoint::max();
}

std::optional<std::pair<MqttSend, Status>> MqttSession::TakeRefused() {
  if (refused_.empty()) return std::nullopt;
  auto first = std::move(refused_.front());
  refused_.pop_front();
  return first;
}

Status MqttSession::Ping(TimePoint now, std::string& out) {
  if (pinged_.has_value()) {
    if (now - *pinged_ < kPingTime) return OkStatus();
    return Unavailable("connection_closed", "the server does not answer any more");
  }
  if (!connected_ || keep_alive_ == Duration::zero() || now - sent_ < keep_alive_ / 2)
    return OkStatus();
  Send(mqtt::Pingreq(), now, out);
  pinged_ = now;
  return OkStatus();
}

void MqttSession::Goodbye(std::string& out) {
  if (connected_) Send(mqtt::Disconnect(), sent_, out);
}

void MqttSession::Send(const mqtt::Packet& packet, TimePoint now, std::string& out) {
  const Result<std::string> bytes = mqtt::Encode(mqtt::Version::k5, packet);
  CHECK(bytes.ok()) << bytes.status();  // a login or a filter was let through that MQTT has not
  out += *bytes;
  sent_ = now;
}

uint16_t MqttSession::FreeId() {
  const auto taken = [this](uint16_t id) {
    return id <= kSubscribeId || std::any_of(in_flight_.begin(), in_flight_.end(),
                                             [&](const Sent& each) { return each.id == id; });
  };
  do {
    ++last_id_;
  } while (taken(last_id_));
  return last_id_;
}

}  // namespace tutti::client
