// Peer: messages from the client to the Hub, and from its session to the client.
#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "mqtt/message_packet.h"
#include "mqtt/topics.h"
#include "server/mqtt/listener/peer.h"

namespace tutti::mqtt::listener {
namespace {

// PUBACK's code for the status of a sink. Only some codes are allowed (table 2-6).
ReasonCode PubackReasonOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return ReasonCode::kSuccess;
    case StatusCode::kPermissionDenied:
      return ReasonCode::kNotAuthorized;
    case StatusCode::kResourceExhausted:
      return ReasonCode::kQuotaExceeded;
    case StatusCode::kInvalidArgument:
      return ReasonCode::kPayloadFormatInvalid;
    case StatusCode::kUnavailable:
      return ReasonCode::kImplementationSpecific;  // valid, but not accepted now
    default:
      return ReasonCode::kUnspecified;
  }
}

}  // namespace

void Peer::OnPublish(Publish packet) {
  if (!packet.properties.subscription_ids.empty()) {
    return Abort(ReasonCode::kProtocolError, "a client names no subscriptions (3.3.4)");
  }
  if (!ResolveAlias(packet)) return;
  if (packet.qos == 2) return Abort(ReasonCode::kQosNotSupported, "QoS 2 is not offered");
  if (packet.retain && !session_->principal.MayRetain(packet.topic)) {
    return Abort(ReasonCode::kRetainNotSupported, "nothing is retained under this topic");
  }
  if (packet.properties.correlation_data.value_or("").size() > limits_.correlation_bytes) {
    return Abort(ReasonCode::kPacketTooLarge, "correlation data that is too long");
  }
  if (packet.qos == 1) {
    const auto same = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& each) {
      return each.packet_id == packet.packet_id;
    });
    if (same != pending_.end()) {
      if (packet.dup) return;  // the acknowledgement of the first is on its way
      if (!v5()) return Abort(ReasonCode::kPacketIdInUse, "");
      return Owe(packet.packet_id, 0, ReasonCode::kPacketIdInUse);
    }
    if (pending_.size() >= limits_.inflight) {
      return Abort(ReasonCode::kReceiveMaximumExceeded, "more unacknowledged than announced");
    }
  }
  const std::optional<ReasonCode> objection = Objection(packet);
  if (!objection) return Route(std::move(packet));
  if (*objection == ReasonCode::kNotAuthorized) host_.Forbidden("publish", packet.topic);
  // 3.1.1 and QoS 0 have no negative acknowledgement, so the connection is closed.
  if (packet.qos == 0 || !v5()) return Abort(*objection, "this message may not be published");
  Owe(packet.packet_id, 0, *objection);
}

// False: the connection has ended.
bool Peer::ResolveAlias(Publish& packet) {
  const auto alias = packet.properties.topic_alias;
  if (!alias) return true;
  if (*alias > limits_.topic_aliases) {
    Abort(ReasonCode::kTopicAliasInvalid, "a topic alias above the maximum");
    return false;
  }
  if (!packet.topic.empty()) {
    // A topic that is too long is refused below, and must not be stored.
    if (packet.topic.size() <= limits_.topic_bytes) aliases_[*alias] = packet.topic;
    return true;
  }
  const auto known = aliases_.find(*alias);
  if (known == aliases_.end()) {
    Abort(ReasonCode::kProtocolError, "a topic alias that was not set");
    return false;
  }
  packet.topic = known->second;
  return true;
}

std::optional<ReasonCode> Peer::Objection(const Publish& packet) const {
  const Principal& principal = session_->principal;
  const Properties& properties = packet.properties;
  if (packet.topic.size() > limits_.topic_bytes ||
      TopicLevels(packet.topic) > limits_.topic_levels) {
    return ReasonCode::kTopicNameInvalid;
  }
  if (!principal.MayPublish(packet.topic)) return ReasonCode::kNotAuthorized;
  // Otherwise this server would publish to a topic that the client may not use.
  if (properties.response_topic && !principal.MayRespond(*properties.response_topic)) {
    return ReasonCode::kNotAuthorized;
  }
  if (properties.payload_is_text.value_or(false) && !IsValidUtf8(packet.payload)) {
    return ReasonCode::kPayloadFormatInvalid;
  }
  if (packet.retain && !packet.payload.empty() &&
      (packet.payload.size() > limits_.retained_bytes || !hub_.RoomToRetain(packet.topic))) {
    return ReasonCode::kQuotaExceeded;
  }
  return std::nullopt;
}

void Peer::Route(Publish packet) {
  const uint8_t qos = packet.qos;
  const uint16_t packet_id = packet.packet_id;
  Message message = FromPublish(std::move(packet), clock_.Now());
  message.user = session_->principal.user;
  message.tenant = session_->principal.tenant;
  message.credential = session_->principal.credential;
  message.client_id = session_->client_id;

  const auto sinks = hub_.SinksOf(message.topic);
  const uint64_t serial = next_serial_;
  if (qos == 1) Owe(packet_id, std::max<size_t>(sinks.size(), 1), ReasonCode::kSuccess);
  const size_t subscribers = hub_.Publish(message, session_);
  message.retain = false;  // current subscribers get a live message (3.3.1.3)
  for (const MessagePort::Sink* sink : sinks) {
    (*sink)(message, qos == 1 ? Receipt(host_.ReceiptCallback(serial)) : Receipt());
  }
  if (qos == 1 && sinks.empty()) {
    pending_.back().reason =
        subscribers > 0 ? ReasonCode::kSuccess : ReasonCode::kNoMatchingSubscribers;
    pending_.back().receipts = 0;
    SendPubacks();
  }
}

// Queues an acknowledgement, sent when `receipts` have arrived and all earlier ones are sent.
void Peer::Owe(uint16_t packet_id, size_t receipts, ReasonCode reason) {
  pending_.push_back(
      {packet_id, next_serial_++, receipts, reason, clock_.Now() + limits_.receipt_time});
  if (receipts == 0) SendPubacks();
}

void Peer::OnReceipt(uint64_t serial, const Status& status) {
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [serial](const Pending& each) { return each.serial == serial; });
  if (found == pending_.end() || found->receipts == 0) return;
  --found->receipts;
  if (!status.ok()) {
    if (!v5()) return Abort(PubackReasonOf(status), "");  // not acknowledged: it will be sent again
    found->reason = PubackReasonOf(status);
  }
  SendPubacks();
}

// In the order in which the messages came (4.6).
void Peer::SendPubacks() {
  while (!pending_.empty() && pending_.front().receipts == 0) {
    Puback packet;
    packet.packet_id = pending_.front().packet_id;
    packet.reason = pending_.front().reason;
    pending_.pop_front();
    Send(packet);
  }
}

// Refuses messages whose sinks have not answered in time. True: the connection has ended.
bool Peer::DueReceipts(TimePoint now) {
  while (!pending_.empty() && pending_.front().due <= now) {
    if (!v5()) {
      Abort(ReasonCode::kUnspecified, "");
      return true;
    }
    pending_.front().reason = ReasonCode::kUnspecified;
    pending_.front().receipts = 0;
    SendPubacks();
  }
  return false;
}

void Peer::SendDelivery(const Delivery& delivery) {
  Publish packet = ToPublish(*delivery.message, clock_.Now());
  packet.qos = delivery.qos;
  packet.retain = delivery.retain;
  packet.packet_id = delivery.packet_id;
  packet.dup = delivery.dup;
  packet.properties.subscription_ids = delivery.subscription_ids;
  Result<std::string> bytes = Encode(version_, packet);
  // A packet above the client's maximum is dropped, and the sender sees success (3.1.2.11.4).
  if (!bytes.ok() || bytes->size() > max_packet_bytes_) {
    if (delivery.qos > 0) session_->outbox.Acknowledge(delivery.packet_id);
    return;
  }
  host_.Write(std::move(*bytes));
}

}  // namespace tutti::mqtt::listener
