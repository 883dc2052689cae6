#include "client/mqtt/session.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "mqtt/codec.h"

namespace tutti::client {
namespace {

using mqtt::ReasonCode;

constexpr uint16_t kSubscribeId = 1;  // messages have those above
constexpr size_t kMaxInFlight = 1000;
constexpr Duration kPingTime = std::chrono::seconds(20);

std::string Numbered(std::string text, ReasonCode reason, const std::string& why) {
  text += " (reason code " + std::to_string(static_cast<int>(reason)) + ")";
  if (!why.empty()) text += ": " + why.substr(0, 200);
  return text;
}

// The error for the user of the command when the server refuses the connection.
Status NotLetIn(const mqtt::ClientProtocol::End& end, bool named) {
  switch (end.reason) {
    case ReasonCode::kBadUserNameOrPassword:
    case ReasonCode::kNotAuthorized:
    case ReasonCode::kBanned:
      return {StatusCode::kUnauthenticated, "invalid_api_key",
              named ? "the server refuses the user name or the password"
                    : "the server lets nobody in without a user name"};
    case ReasonCode::kUnsupportedVersion:
      return {StatusCode::kUnimplemented, "unsupported", "the server does not speak MQTT 5"};
    default:
      return Unavailable("unavailable", Numbered("the server lets nobody in", end.reason, end.why));
  }
}

Status Refusal(ReasonCode reason, const std::string& why) {
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
      return Unavailable("unavailable", Numbered("the server refuses the message", reason, why));
  }
}

Status Broken(std::string_view why) {
  return Unavailable("bad_response", "the server broke the protocol: " + std::string(why));
}

}  // namespace

MqttSession::MqttSession(const MqttSessionOptions& options)
    : options_(options),
      protocol_({.packet_bytes = options.packet_bytes,
                 .pings_per_keep_alive = 2,
                 .ping_time = kPingTime}),
      splitter_(protocol_.limits()),
      pace_(options.min_interval) {}

void MqttSession::Open(TimePoint now, std::string& out) {
  mqtt::Connect connect;
  connect.keep_alive_s = options_.login.keep_alive_s;
  connect.client_id = options_.login.client_id;
  connect.user_name = options_.login.user;
  connect.password = options_.login.password;
  connect.properties.maximum_packet_size = static_cast<uint32_t>(options_.packet_bytes);
  protocol_.Open(connect, now, out);
}

Status MqttSession::On(std::string_view bytes, TimePoint now, std::string& out,
                       std::vector<mqtt::Publish>& messages) {
  while (true) {
    splitter_.set_limits(protocol_.limits());
    bytes.remove_prefix(splitter_.Feed(bytes));
    if (splitter_.fault().has_value()) return Broken(splitter_.fault()->why);
    if (!splitter_.done()) return OkStatus();
    RETURN_IF_ERROR(Take(splitter_.Take(), now, out, messages));
  }
}

Status MqttSession::Take(const mqtt::Frame& frame, TimePoint now, std::string& out,
                         std::vector<mqtt::Publish>& messages) {
  mqtt::ClientProtocol::Event event = protocol_.Take(frame, now, out);
  if (const auto* end = std::get_if<mqtt::ClientProtocol::End>(&event)) return StatusOf(*end);
  if (const auto* connack = std::get_if<mqtt::Connack>(&event)) OnConnack(*connack);
  if (const auto* puback = std::get_if<mqtt::Puback>(&event)) return OnPuback(*puback, out);
  if (auto* publish = std::get_if<mqtt::Publish>(&event)) {
    if (publish->qos == 1) {
      mqtt::Puback ack;
      ack.packet_id = publish->packet_id;
      protocol_.Send(ack, now, out);
    }
    messages.push_back(std::move(*publish));
  } else if (const auto* suback = std::get_if<mqtt::Suback>(&event)) {
    const ReasonCode reason = suback->reasons.at(0);
    subscribed_ = mqtt::IsFailure(reason)
                      ? Status(StatusCode::kPermissionDenied, "insufficient_scope",
                               Numbered("the server does not let this user listen there", reason,
                                        suback->properties.reason_string.value_or("")))
                      : OkStatus();
  }
  return OkStatus();
}

Status MqttSession::StatusOf(const mqtt::ClientProtocol::End& end) const {
  using How = mqtt::ClientProtocol::End::How;
  switch (end.how) {
    case How::kRefused:
      return NotLetIn(end, options_.login.user.has_value());
    case How::kDisconnected:
      return Unavailable("connection_closed",
                         Numbered("the server has ended the connection", end.reason, end.why));
    case How::kSilent:
      return Unavailable("connection_closed", "the server does not answer any more");
    case How::kBroken:
      break;
  }
  return Broken(end.why);
}

void MqttSession::OnConnack(const mqtt::Connack& packet) {
  const mqtt::Properties& properties = packet.properties;
  max_in_flight_ = std::min<size_t>(kMaxInFlight, properties.receive_maximum.value_or(65'535));
  max_packet_bytes_ = properties.maximum_packet_size.value_or(256u << 20);
}

Status MqttSession::OnPuback(const mqtt::Puback& packet, std::string& out) {
  const auto sent = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const Sent& each) { return each.id == packet.packet_id; });
  if (sent == in_flight_.end()) {
    return StatusOf(protocol_.Break(ReasonCode::kProtocolError, "PUBACK of no message", out));
  }
  if (packet.reason != ReasonCode::kSuccess) {
    refused_.emplace_back(std::move(sent->message),
                          Refusal(packet.reason, packet.properties.reason_string.value_or("")));
  }
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
  protocol_.Send(packet, now, out);
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
      refused_.emplace_back(std::move(sent.message), Refusal(ReasonCode::kPacketTooLarge, ""));
      continue;
    }
    out += *bytes;
    protocol_.NoteSent(now);
    pace_.Sent(now);
    in_flight_.push_back(std::move(sent));
  }
}

TimePoint MqttSession::due() const {
  const bool may = connected() && !waiting_.empty() && in_flight_.size() < max_in_flight_;
  return may ? pace_.due() : TimePoint::max();
}

std::optional<std::pair<MqttSend, Status>> MqttSession::TakeRefused() {
  if (refused_.empty()) return std::nullopt;
  auto first = std::move(refused_.front());
  refused_.pop_front();
  return first;
}

Status MqttSession::Ping(TimePoint now, std::string& out) {
  const std::optional<mqtt::ClientProtocol::End> end = protocol_.Tick(now, /*reading=*/true, out);
  return end.has_value() ? StatusOf(*end) : OkStatus();
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
