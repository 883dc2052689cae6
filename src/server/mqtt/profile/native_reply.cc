#include "server/mqtt/profile/native_reply.h"

#include "server/mqtt/profile/native_events.h"

namespace tutti::mqtt::profile {

std::optional<Message> NativeReply::OfDeltas(const Deltas& deltas, int64_t) const {
  const wire::ResponseState& state = response_->base().state;
  Message message = LogMessage(address_, state, deltas.last, /*last=*/false, DeltasEvent(deltas));
  message.qos = 0;
  return message;
}

std::optional<Message> NativeReply::OfEvent(const responses::LogEntry& entry, int64_t) const {
  return LogMessage(address_, response_->base().state, entry.sequence, entry.terminal(),
                    wire::EventJson(entry.event, entry.sequence));
}

std::optional<Message> NativeReply::OfError(const Status& error) const {
  return ErrorMessage(address_, error, id_);
}

}  // namespace tutti::mqtt::profile
