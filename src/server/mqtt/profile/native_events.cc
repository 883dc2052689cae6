#include "server/mqtt/profile/native_events.h"

#include <utility>

#include "wire/response_events.h"

namespace tutti::mqtt::profile {

std::string DeltasEvent(const Deltas& deltas) {
  wire::EventExtras extras;
  if (deltas.first != deltas.last) extras.first_sequence = deltas.first;
  return wire::EventJson(deltas.event, deltas.last, extras);
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
