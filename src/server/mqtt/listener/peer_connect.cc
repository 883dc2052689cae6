// Peer's part for CONNECT: from the packet to an open session.
#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "mqtt/message_packet.h"
#include "mqtt/topics.h"
#include "server/mqtt/listener/peer.h"

namespace tutti::mqtt::listener {
namespace {

bool IsClientId(std::string_view id, size_t most) {
  return !id.empty() && id.size() <= most && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == ':' || c == '-';
  });
}

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
  const bool named = IsClientId(connect.client_id, limits_.client_id_bytes);
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
  last_packet_ = clock_.Now();
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
