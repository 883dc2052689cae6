#include "doors/mqtt/profile/native_events.h"

#include <utility>

#include "wire/json.h"
#include "wire/response_events.h"

namespace tutti::mqtt::profile {

std::optional<std::string> DeltaTextOf(const responses::LogEntry& entry) {
  if (entry.type != "response.output_text.delta") return std::nullopt;
  const Result<wire::JsonDocument> document = wire::ParseJson(entry.json);
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  const wire::Json* delta = document->root().get_object().if_contains("delta");
  if (delta == nullptr || !delta->is_string()) return std::nullopt;
  return std::string(delta->get_string().data(), delta->get_string().size());
}

std::string DeltasEvent(const wire::ResponseState& state, const Deltas& deltas) {
  std::string event = wire::TextDeltaEvent(deltas.last, state, deltas.text);
  if (deltas.first == deltas.last) return event;
  event.pop_back();  // of a finished object: one member more
  return event + ",\"first_sequence_number\":" + std::to_string(deltas.first) + "}";
}

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

Message LogMessage(const NativeAddress& address, const wire::ResponseState& state, int64_t sequence,
                   bool last, std::string payload) {
  Message message = EventMessage(address, std::move(payload));
  message.user_properties = {{"resp", state.id},
                             {"seq", std::to_string(sequence)},
                             {"last", last ? "true" : "false"},
                             {"model", state.model}};
  return message;
}

Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id) {
  return EventMessage(address, wire::ErrorEvent(std::nullopt, error, id));
}

}  // namespace tutti::mqtt::profile
