#include "server/mqtt/listener/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "mqtt/message_packet.h"
#include "mqtt/topics.h"

namespace tutti::mqtt::listener {
namespace {

// Minimum packet size: the largest CONNACK and DISCONNECT of this server.
constexpr size_t kLeastPacketBytes = 96;

ReasonCode ConnackReasonOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnauthenticated:
      return ReasonCode::kBadUserNameOrPassword;
    case StatusCode::kPermissionDenied:
    case StatusCode::kInvalidArgument:
      return ReasonCode::kNotAuthorized;
    case StatusCode::kResourceExhausted:
      return ReasonCode::kConnectionRateExceeded;
    default:
      return ReasonCode::kServerUnavailable;
  }
}

}  // namespace

Peer::Peer(Host& host, Hub& hub, const Limits& limits, const Clock& clock)
    : host_(host),
      hub_(hub),
      limits_(limits),
      clock_(clock),
      login_due_(clock.Now() + limits.login_time) {}

Peer::~Peer() { CHECK(session_ == nullptr) << "a connection that ended without OnGone()"; }

void Peer::OnFrame(const Frame& frame) {
  CHECK(reading());
  last_packet_ = clock_.Now();
  if (state_ == State::kConnecting && frame.type != PacketType::kConnect) {
    state_ = State::kEnded;  // the version is unknown, so no packet is sent
    return host_.End(ReasonCode::kProtocolError);
  }
  if (state_ == State::kOpen && !WithinRate()) {
    return Abort(ReasonCode::kMessageRateTooHigh, "more packets a second than are taken");
  }
  Decoded decoded = Decode(version_, frame);
  if (decoded.ok()) return OnPacket(std::move(decoded.packet));
  if (state_ == State::kOpen) return Abort(decoded.fault->code, decoded.fault->why);
  version_ = VersionToAnswer(frame);
  // 3.1.1 requires an answer to an unknown version, and a close for a malformed packet (3.1.4).
  if (v5() || decoded.fault->code == ReasonCode::kUnsupportedVersion) {
    return Refuse(decoded.fault->code, decoded.fault->why);
  }
  state_ = State::kEnded;
  host_.End(decoded.fault->code);
}

void Peer::OnFramingFault(const Fault& fault) {
  if (state_ == State::kOpen) return Abort(fault.code, fault.why);
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  host_.End(fault.code);
}

void Peer::OnPacket(Packet packet) {
  if (state_ == State::kConnecting) return OnConnect(std::get<Connect>(std::move(packet)));
  switch (TypeOf(packet)) {
    case PacketType::kPublish:
      return OnPublish(std::get<Publish>(std::move(packet)));
    case PacketType::kPuback:
      // An unknown id belongs to a message that was sent long ago, and is ignored.
      session_->outbox.Acknowledge(std::get<Puback>(packet).packet_id);
      return Serve();
    case PacketType::kPubrel: {  // QoS 2 is not offered, so no id is known
      Pubcomp answer;
      answer.packet_id = std::get<Pubrel>(packet).packet_id;
      answer.reason = ReasonCode::kPacketIdNotFound;
      return Send(answer);
    }
    case PacketType::kSubscribe:
      return OnSubscribe(std::get<Subscribe>(packet));
    case PacketType::kUnsubscribe:
      return OnUnsubscribe(std::get<Unsubscribe>(packet));
    case PacketType::kPingreq:
      return Send(Pingresp());
    case PacketType::kDisconnect:
      return OnDisconnect(std::get<Disconnect>(packet));
    case PacketType::kConnect:
      return Abort(ReasonCode::kProtocolError, "a second CONNECT");
    default:
      return Abort(ReasonCode::kProtocolError, "a packet that a client does not send here");
  }
}

void Peer::OnSubscribe(const Subscribe& packet) {
  Suback answer;
  answer.packet_id = packet.packet_id;
  std::optional<uint32_t> id;
  if (!packet.properties.subscription_ids.empty()) id = packet.properties.subscription_ids.front();
  for (const Subscription& each : packet.subscriptions) {
    answer.reasons.push_back(hub_.Subscribe(session_, each, id));
    if (answer.reasons.back() == ReasonCode::kNotAuthorized)
      host_.Forbidden("subscribe", each.filter);
  }
  Send(answer);  // before retained messages, which Serve() sends
}

void Peer::OnUnsubscribe(const Unsubscribe& packet) {
  Unsuback answer;
  answer.packet_id = packet.packet_id;
  for (const std::string& filter : packet.filters) {
    answer.reasons.push_back(hub_.Unsubscribe(session_, filter)
                                 ? ReasonCode::kSuccess
                                 : ReasonCode::kNoSubscriptionExisted);
  }
  Send(answer);
}

void Peer::OnDisconnect(const Disconnect& packet) {
  if (const auto expiry = packet.properties.session_expiry_s) {
    // A client that connected without a session cannot get one on DISCONNECT (5.0 section
    // 3.14.2.2.2).
    if (connect_.properties.session_expiry_s.value_or(0) == 0 && *expiry > 0) {
      return Abort(ReasonCode::kProtocolError, "a session expiry where there was none");
    }
    session_->expiry_s = std::min(*expiry, limits_.session_expiry_s);
  }
  Leave(packet.reason != ReasonCode::kSuccess);
  host_.End(packet.reason);
}

void Peer::Serve() {
  if (state_ != State::kOpen) return;
  if (session_->overflow) return Abort(ReasonCode::kQuotaExceeded, "too much waits to be read");
  while (host_.unsent() < limits_.unsent_bytes) {
    const auto delivery = session_->outbox.Next(send_quota_, clock_.Now());
    if (!delivery) return;
    SendDelivery(*delivery);
  }
}

// Generic cell rate algorithm: packets_per_s, with a burst.
bool Peer::WithinRate() {
  const TimePoint now = clock_.Now();
  const Duration each = Duration(std::chrono::seconds(1)) / limits_.packets_per_s;
  const TimePoint next = std::max(now, rate_due_) + each;
  if (next - now > each * limits_.packet_burst) return false;
  rate_due_ = next;
  return true;
}

void Peer::Send(const Packet& packet) {
  Result<std::string> bytes = Encode(version_, packet);
  CHECK(bytes.ok()) << bytes.status();  // built from decoded ids, so always valid
  if (bytes->size() > max_packet_bytes_) {
    return Abort(ReasonCode::kPacketTooLarge, "an answer larger than this client takes");
  }
  host_.Write(std::move(*bytes));
}

void Peer::Abort(ReasonCode code, std::string_view why) {
  Disconnect goodbye;
  goodbye.reason = code;
  goodbye.properties.reason_string = why;
  if (v5() && ReasonCodeFits(static_cast<uint8_t>(code), PacketType::kDisconnect)) {
    Result<std::string> bytes = Encode(version_, goodbye);
    if (bytes.ok() && bytes->size() <= max_packet_bytes_) host_.Write(std::move(*bytes));
  }
  Leave(true);
  host_.End(code);
}

void Peer::Leave(bool publish_will) {
  state_ = State::kEnded;
  pending_.clear();
  if (session_ != nullptr) hub_.Close(std::exchange(session_, nullptr), publish_will);
}

void Peer::OnGone() { Leave(true); }

void Peer::Revoke(std::string_view credential) {
  if (state_ != State::kOpen || session_->principal.credential != credential) return;
  session_->will.reset();  // its author is no longer authorized
  Abort(ReasonCode::kNotAuthorized, session_->principal.expires_s.has_value()
                                        ? "its client certificate has expired or was withdrawn"
                                        : "its key or password has expired or was revoked");
}

void Peer::Shutdown() {
  if (state_ == State::kOpen) {
    session_->will.reset();  // the server goes, not the client
    return Abort(ReasonCode::kServerShuttingDown, "the server ends");
  }
  if (state_ == State::kAuthenticating) {
    return Refuse(ReasonCode::kServerUnavailable, "the server ends");
  }
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  host_.End(ReasonCode::kServerShuttingDown);
}

void Peer::OnTakenOver() {
  session_ = nullptr;  // it is the other connection's
  Abort(ReasonCode::kSessionTakenOver, "another connection has this client id now");
}

bool Peer::reading() const {
  if (state_ == State::kConnecting) return true;
  // Input is not read from a client that does not read its answers. MQTT 3.1.1 has no receive
  // maximum, so there the limit on unacknowledged messages also stops reading.
  return state_ == State::kOpen && host_.unsent() < limits_.unsent_bytes &&
         (v5() || pending_.size() < limits_.inflight);
}

TimePoint Peer::due() const {
  if (state_ == State::kEnded) return TimePoint::max();
  if (state_ != State::kOpen) return login_due_;
  TimePoint due = last_packet_ + silence_;
  if (!pending_.empty()) due = std::min(due, pending_.front().due);
  return due;
}

void Peer::OnTime() {
  const TimePoint now = clock_.Now();
  if (state_ == State::kConnecting && now >= login_due_) {
    state_ = State::kEnded;
    return host_.End(ReasonCode::kKeepAliveTimeout);
  }
  if (state_ == State::kAuthenticating && now >= login_due_) {
    return Refuse(ReasonCode::kServerUnavailable, "the login was not answered in time");
  }
  if (state_ != State::kOpen || DueReceipts(now)) return;
  if (!reading()) last_packet_ = now;  // its pings are unread
  if (now - last_packet_ >= silence_) {
    Abort(ReasonCode::kKeepAliveTimeout, "silent for half as long again as agreed");
  }
}

// --- CONNECT: from the packet to an open session ---

void Peer::OnConnect(Connect connect) {
  version_ = connect.version;
  connect_ = std::move(connect);
  Credentials credentials;
  credentials.user_name = connect_.user_name;
  credentials.password = std::exchange(connect_.password, std::nullopt);
  const Properties& asked = connect_.properties;
  max_packet_bytes_ = v5() ? asked.maximum_packet_size.value_or(UINT32_MAX) : UINT32_MAX;
  if (const ReasonCode code = CheckConnect(connect_); IsFailure(code)) {
    return Refuse(code, "this CONNECT is not taken");
  }
  credentials.client_id = connect_.client_id;
  send_quota_ = std::min<size_t>(asked.receive_maximum.value_or(0xFFFF), limits_.inflight);
  const uint16_t keep_alive = connect_.keep_alive_s == 0
                                  ? limits_.keep_alive_s
                                  : std::min(connect_.keep_alive_s, limits_.keep_alive_s);
  silence_ = Duration(std::chrono::seconds(keep_alive)) * 3 / 2;
  state_ = State::kAuthenticating;
  host_.Authenticate(std::move(credentials));
}

// Checks that need no authentication.
ReasonCode Peer::CheckConnect(const Connect& connect) const {
  if (connect.properties.authentication_method) return ReasonCode::kBadAuthenticationMethod;
  if (max_packet_bytes_ < kLeastPacketBytes) return ReasonCode::kPacketTooLarge;
  const bool may_be_named = v5() || connect.clean_start;
  const bool named = IsPlainText(connect.client_id, limits_.client_id_bytes, "_.:-");
  if (!named && !(connect.client_id.empty() && may_be_named)) {
    return ReasonCode::kClientIdNotValid;
  }
  if (!connect.will) return ReasonCode::kSuccess;
  const Will& will = *connect.will;
  if (will.qos > 1) return ReasonCode::kQosNotSupported;
  if (will.topic.size() > limits_.topic_bytes || TopicLevels(will.topic) > limits_.topic_levels) {
    return ReasonCode::kTopicNameInvalid;
  }
  if (will.properties.correlation_data.value_or("").size() > limits_.correlation_bytes) {
    return ReasonCode::kPacketTooLarge;
  }
  if (will.properties.payload_is_text.value_or(false) && !IsValidUtf8(will.payload)) {
    return ReasonCode::kPayloadFormatInvalid;
  }
  return ReasonCode::kSuccess;
}

ReasonCode Peer::CheckWill(const Principal& principal) const {
  if (!connect_.will) return ReasonCode::kSuccess;
  const Will& will = *connect_.will;
  const auto& response = will.properties.response_topic;
  if (!principal.MayPublish(will.topic)) return ReasonCode::kNotAuthorized;
  if (response && !principal.MayRespond(*response)) return ReasonCode::kNotAuthorized;
  if (will.retain && !principal.MayRetain(will.topic)) return ReasonCode::kRetainNotSupported;
  if (will.retain &&
      (will.payload.size() > limits_.retained_bytes || !hub_.RoomToRetain(will.topic))) {
    return ReasonCode::kQuotaExceeded;
  }
  return ReasonCode::kSuccess;
}

void Peer::OnAuthenticated(const Result<Principal>& result) {
  if (state_ != State::kAuthenticating) return;
  if (!result.ok()) return Refuse(ConnackReasonOf(result.status()), "the login was refused");
  if (const ReasonCode code = CheckWill(*result); IsFailure(code)) {
    return Refuse(code, "a Will that this user may not have");
  }
  const bool unnamed = connect_.client_id.empty();
  const std::string client_id = unnamed ? host_.NewClientId() : connect_.client_id;
  uint32_t expiry = connect_.properties.session_expiry_s.value_or(0);
  if (!v5()) expiry = connect_.clean_start ? 0 : limits_.session_expiry_s;
  std::optional<StoredWill> will;
  if (connect_.will) will = TakeWill(*result, client_id);
  const Hub::Opened opened =
      hub_.Open(*result, client_id, connect_.clean_start, expiry, std::move(will), this);
  session_ = opened.session;
  state_ = State::kOpen;
  opened_ = last_packet_ = clock_.Now();
  Connack welcome = Welcome(opened.present);
  if (unnamed) welcome.properties.assigned_client_id = client_id;
  Send(welcome);
  host_.LoggedIn();
  Serve();
}

Connack Peer::Welcome(bool present) const {
  Connack packet;
  packet.session_present = present;
  Properties& properties = packet.properties;
  const uint32_t asked = connect_.properties.session_expiry_s.value_or(0);
  if (session_->expiry_s != asked) properties.session_expiry_s = session_->expiry_s;
  if (connect_.keep_alive_s == 0 || connect_.keep_alive_s > limits_.keep_alive_s) {
    properties.server_keep_alive_s = limits_.keep_alive_s;
  }
  properties.receive_maximum = limits_.inflight;
  properties.topic_alias_maximum = limits_.topic_aliases;
  properties.maximum_qos = true;  // 1
  properties.maximum_packet_size = static_cast<uint32_t>(limits_.packet_bytes);
  properties.shared_available = false;
  return packet;
}

StoredWill Peer::TakeWill(const Principal& principal, const std::string& client_id) {
  Will from = std::move(*connect_.will);
  connect_.will.reset();
  const Properties& properties = from.properties;
  StoredWill will;
  will.delay = std::chrono::seconds(properties.will_delay_s.value_or(0));
  will.expiry_s = properties.message_expiry_s;
  will.message = FromWill(std::move(from));
  Message& message = will.message;
  message.user = principal.user;
  message.tenant = principal.tenant;
  message.credential = principal.credential;
  message.client_id = client_id;
  return will;
}

void Peer::Refuse(ReasonCode code, std::string_view why) {
  Connack packet;
  packet.reason = code;
  packet.properties.reason_string = why;
  state_ = State::kEnded;
  Result<std::string> bytes = Encode(version_, packet);
  // Before CONNECT is understood, what the client takes is not known.
  if (bytes.ok() && (max_packet_bytes_ == 0 || bytes->size() <= max_packet_bytes_)) {
    host_.Write(std::move(*bytes));
  }
  host_.End(code);
}

}  // namespace tutti::mqtt::listener
