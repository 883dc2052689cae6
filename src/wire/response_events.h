// A response and the events of its life as JSON, in the shapes of OpenAI's Responses API.
//
// Each event is one compact object with `type` and `sequence_number`, which the caller counts from
// 0 without gaps; how it is framed (SSE, MQTT, WebSocket) is the door's business, so that all doors
// carry the same bytes, but for the number: MQTT counts `accepted` too. The order is
//
//   response.created, response.queued (background), response.in_progress
//   of each message of the output:
//     response.output_item.added, response.content_part.added
//     response.output_text.delta ...
//     response.output_text.done, response.content_part.done, response.output_item.done
//   of each reasoning item the same, with response.reasoning_text.delta and .done
//   of each call of a function:
//     response.output_item.added
//     response.function_call_arguments.delta ..., response.function_call_arguments.done
//     response.output_item.done
//   response.completed | .incomplete | .failed | .cancelled
//
// An answer without calls and reasoning is one message at output_index 0; a message or reasoning
// has one part, at content_index 0. What the output of a response is says response_output.h. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/response_output.h"
#include "wire/response_state.h"

namespace tutti::wire {

std::string_view ResponseStatusName(ResponseStatus status);  // "in_progress"

// The type of the lifecycle event that tells of this status: "response.in_progress".
std::string_view LifecycleType(ResponseStatus status);

// The response object, as GET shows it.
std::string ResponseJson(const ResponseState& state);

// `type` is "response.created" or LifecycleType(state.status).
std::string LifecycleEvent(std::string_view type, int64_t sequence, const ResponseState& state);

// `index`: the item's place in the output. Added, it has no text and no arguments yet.
std::string ItemAddedEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string PartAddedEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string TextDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                           std::string_view delta);
std::string ReasoningDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta);
std::string ArgumentsDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta);
// A finished event for a reader that asked for obfuscation: with a member of so many characters
// that has no meaning, so that sizes on the way do not tell the words. The event itself is shared.
std::string Obfuscated(std::string event, size_t characters);
// These repeat the whole text, of a message or of reasoning, or the whole call.
std::string_view TextDoneType(const OutputItem& item);  // "response.output_text.done"
std::string TextDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string PartDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string ArgumentsDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string ItemDoneEvent(int64_t sequence, size_t index, const OutputItem& item,
                          std::string_view status);

// The same event, but `accepted` or `error`, under another number.
std::string Renumbered(std::string_view event, int64_t sequence);

// Ours, and of MQTT alone: the message is durable and will be answered once, as turn `turn` of its
// dialog, after `position` turns that must end first. Stands before response.created.
std::string AcceptedEvent(int64_t sequence, std::string_view message_id,
                          std::string_view response_id, int64_t turn, size_t position);

// Of a request that made no response, or a stream that cannot go on: flat, as the Responses API
// has it. `message_id` is the client's, and left out where it is empty; so is `sequence` where the
// event stands in no log.
std::string ErrorEvent(std::optional<int64_t> sequence, const Status& error,
                       std::string_view message_id);

}  // namespace tutti::wire
