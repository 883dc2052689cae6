// What the native profile publishes, as messages: pure functions.
//
// The events of a response are those of its log, with the numbers of its log, where `accepted` is 0
// (SSE does not show that, and counts from the event behind it), with one exception: deltas that
// are sent together are one event. Its `delta` is their texts one after the other, its
// `sequence_number` the last one's, and `first_sequence_number` the first one's. So an event tells
// of all numbers from `first_sequence_number` (where that is absent: from its own) up to its own;
// what does not begin behind the last number that a client has seen is a gap, and a resume with
// that number as `starting_after` gives exactly what follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "doors/mqtt/profile/delta_coalescer.h"
#include "doors/mqtt/profile/native_address.h"
#include "mqtt/message_port.h"
#include "services/responses/response_log.h"
#include "wire/response_state.h"

namespace tutti::mqtt::profile {

// What a response.output_text.delta or response.reasoning_text.delta adds; nothing when the entry
// is another event.
std::optional<TextDelta> TextDeltaOf(const responses::LogEntry& entry);

std::string DeltasEvent(const Deltas& deltas);

// An event is one message, and brokers have their limits: what grows with what clients ask for may
// have so many bytes.
inline constexpr size_t kMostEventBytes = 1 << 20;

// Any event to where `address` says, at QoS 1.
Message EventMessage(const NativeAddress& address, std::string payload);
// With the user properties of one in a response's log.
Message LogMessage(const NativeAddress& address, const wire::ResponseState& state, int64_t sequence,
                   bool last, std::string payload);
// A refusal; `id`: the client's, or empty.
Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id);

}  // namespace tutti::mqtt::profile
