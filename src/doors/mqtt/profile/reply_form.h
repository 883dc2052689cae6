// ReplyForm: what the events of one answer are as messages of a profile. Of the strand; it sends
// nothing itself, and what it gives may not be sent now and be asked for again.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "doors/mqtt/profile/delta_coalescer.h"
#include "mqtt/message_port.h"
#include "services/responses/response_log.h"

namespace tutti::mqtt::profile {

class ReplyForm {
 public:
  virtual ~ReplyForm() = default;

  // All: nothing, when this form does not show it.
  //
  // Deltas that are sent together; `index` were sent before. At QoS 0 they may be lost.
  virtual std::optional<Message> OfDeltas(const Deltas& deltas, int64_t index) const = 0;
  // Any other event; of the terminal one the message is the answer, and not lost.
  virtual std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const = 0;
  // In place of what could not be sent, or of events that are gone.
  virtual std::optional<Message> OfError(const Status& error) const = 0;
};

}  // namespace tutti::mqtt::profile
