#include "server/mqtt/chat/native_formatter.h"

#include "protocol/responses/events.h"

namespace tutti::mqtt::chat {

Message EventMessage(const NativeAddress& address, std::string payload) {
  Message message;
  message.topic = address.reply_topic;
  message.payload = std::move(payload);
  message.qos = 1;
  message.payload_is_text = true;
  message.content_type = "application/json";
  message.correlation_data = address.correlation;
  return message;
}

Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id) {
  return EventMessage(address, protocol::ErrorEvent(std::nullopt, error, id));
}

Message NativeFormatter::LogMessage(int64_t sequence, bool last, std::string payload) const {
  const protocol::ResponseState& state = response().base().state;
  Message message = EventMessage(address_, std::move(payload));
  message.user_properties = {{"resp", state.id},
                             {"seq", std::to_string(sequence)},
                             {"last", last ? "true" : "false"},
                             {"model", state.model}};
  return message;
}

std::optional<Message> NativeFormatter::OfAcceptance(const sessions::Acceptance& acceptance) const {
  const protocol::AcceptedEvent accepted{id_, acceptance.response_id, acceptance.turn,
                                         acceptance.position};
  return EventMessage(address_, protocol::EventJson(accepted, 0));
}

std::optional<Message> NativeFormatter::OfDeltas(const Deltas& deltas, int64_t) const {
  protocol::EventExtras extras;
  if (deltas.first != deltas.last) extras.first_sequence = deltas.first;
  Message message = LogMessage(deltas.last, /*last=*/false,
                               protocol::EventJson(deltas.event, deltas.last, extras));
  message.qos = 0;
  return message;
}

std::optional<Message> NativeFormatter::OfEvent(const responses::LogEntry& entry, int64_t) const {
  return LogMessage(entry.sequence, entry.terminal(),
                    protocol::EventJson(entry.event, entry.sequence));
}

std::optional<Message> NativeFormatter::OfError(const Status& error) const {
  return ErrorMessage(address_, error, id_);
}

}  // namespace tutti::mqtt::chat
