// Encodes the events of the native profile as messages: pure functions.
//
// The events of a response are those of its log, with the numbers of the log, where `accepted` is 0
// (SSE does not show `accepted`, and numbers from the event after it). One exception: deltas that
// are sent together are one event. Its `delta` is the concatenation of their texts, its
// `sequence_number` that of the last delta, and its `first_sequence_number` that of the first. So
// an event covers all numbers from `first_sequence_number` (if absent: its own number) to its own.
// A client that receives an event which does not begin after the last number it has seen has a gap;
// a resume with that last number as `starting_after` gives exactly the missing events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "server/mqtt/profile/delta_coalescer.h"
#include "server/mqtt/profile/native_address.h"
#include "wire/response_state.h"

namespace tutti::mqtt::profile {

std::string DeltasEvent(const Deltas& deltas);

// Maximum size of an event whose size depends on the client's request: an event is one message, and
// brokers limit messages.
inline constexpr size_t kMaxEventBytes = 1 << 20;

// A message with an event for `address`, at QoS 1.
Message EventMessage(const NativeAddress& address, std::string payload);
// The same with the user properties of an event of a response's log.
Message LogMessage(const NativeAddress& address, const wire::ResponseState& state, int64_t sequence,
                   bool last, std::string payload);
// A message with an error; `id`: the client's id, or empty.
Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id);

}  // namespace tutti::mqtt::profile
