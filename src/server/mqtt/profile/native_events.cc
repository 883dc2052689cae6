#include "server/mqtt/profile/native_events.h"

#include <utility>

#include "services/responses/stored_json.h"
#include "wire/json.h"
#include "wire/response_events.h"

namespace tutti::mqtt::profile {

std::optional<TextDelta> TextDeltaOf(const responses::LogEntry& entry) {
  const bool reasoning = entry.type == "response.reasoning_text.delta";
  if (!reasoning && entry.type != "response.output_text.delta") return std::nullopt;
  const Result<wire::JsonDocument> document = wire::ParseJson(entry.json);
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  const responses::StoredObject event(document->root());
  if (!event.Has("delta")) return std::nullopt;
  return TextDelta{.text = event.Text("delta"),
                   .item_id = event.Text("item_id"),
                   .output_index = static_cast<size_t>(event.Int("output_index")),
                   .reasoning = reasoning};
}

std::string DeltasEvent(const Deltas& deltas) {
  const auto write = deltas.reasoning ? &wire::ReasoningDeltaEvent : &wire::TextDeltaEvent;
  std::string event = write(deltas.last, deltas.output_index, deltas.item_id, deltas.text);
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
