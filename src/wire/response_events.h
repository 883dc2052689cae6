// JSON of the response object and its events, as in OpenAI's Responses API.
//
// Each event is one compact object with `type` and `sequence_number`, which the caller counts from
// 0 without gaps. The servers add the framing (SSE, MQTT, WebSocket), so that all of them send the
// same bytes, except for the number: MQTT also counts `accepted`. The order is
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
// has one part, at content_index 0. response_output.h defines the output of a response. Pure.
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

// Type of the lifecycle event for a status, such as "response.in_progress".
std::string_view LifecycleType(ResponseStatus status);

// The response object, as returned by GET /v1/responses/{id}.
std::string ResponseJson(const ResponseState& state);

// `type` is "response.created" or LifecycleType(state.status).
std::string LifecycleEvent(std::string_view type, int64_t sequence, const ResponseState& state);

// `index`: position of the item in the output. An added item has no text or arguments yet.
std::string ItemAddedEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string PartAddedEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string TextDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                           std::string_view delta);
std::string ReasoningDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta);
std::string ArgumentsDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta);
// Copy of an event for a client that requested obfuscation: adds a padding member of that many
// characters, so that the sizes of network packets do not reveal the words.
std::string Obfuscated(std::string event, size_t characters);
// The following events repeat the whole text of a message or reasoning item, or the whole call.
std::string_view TextDoneType(const OutputItem& item);  // "response.output_text.done"
std::string TextDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string PartDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string ArgumentsDoneEvent(int64_t sequence, size_t index, const OutputItem& item);
std::string ItemDoneEvent(int64_t sequence, size_t index, const OutputItem& item,
                          std::string_view status);

// Copy of an event with another number; not for `accepted` and `error`.
std::string Renumbered(std::string_view event, int64_t sequence);

// `accepted` event, an extension that only MQTT sends, before response.created: the message is
// durable and will be answered once, as turn `turn` of its dialog, after `position` earlier turns.
std::string AcceptedEvent(int64_t sequence, std::string_view message_id,
                          std::string_view response_id, int64_t turn, size_t position);

// `error` event for a request that created no response, or for a stream that cannot continue; flat,
// as in the Responses API. `message_id` is the client's and is omitted when empty; `sequence` is
// omitted when the event belongs to no log.
std::string ErrorEvent(std::optional<int64_t> sequence, const Status& error,
                       std::string_view message_id);

}  // namespace tutti::wire
