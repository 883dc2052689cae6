// ReplyForm: encodes the events of one answer as messages of a profile. Runs on the strand. It
// sends nothing itself; a message that cannot be sent now is requested again later.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/profile/delta_coalescer.h"
#include "services/responses/response_log.h"

namespace tutti::mqtt::profile {

class ReplyForm {
 public:
  virtual ~ReplyForm() = default;

  // Each returns nothing if this form does not show the event.
  //
  // Deltas that are sent together, after `index` earlier messages of deltas. At QoS 0 they may be
  // lost.
  virtual std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const = 0;
  // Any other event; the message of the terminal event holds the answer, and is never lost.
  virtual std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const = 0;
  // Replaces an event that could not be sent, or events that are no longer stored.
  virtual std::optional<Message> OfError(const Status& error) const = 0;
};

}  // namespace tutti::mqtt::profile
