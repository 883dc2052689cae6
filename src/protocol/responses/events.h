// The events of a response as in OpenAI's Responses API: typed values, and the JSON of each.
//
// A log keeps the values; each server renders them at its edge (SSE, MQTT, WebSocket), so all of
// them send the same bytes, except for the number: clients of the Responses API count from
// response.created, chats also count `accepted`. The order is
//
//   [accepted] response.created [response.queued] [context.truncated] [response.in_progress]
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
// has one part, at content_index 0. state.h defines the output of a response. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/state.h"

namespace tutti::protocol {

std::string_view ResponseStatusName(ResponseStatus status);  // "in_progress"

// Type of the lifecycle event for a status, such as "response.in_progress".
std::string_view LifecycleType(ResponseStatus status);

// The response object, as returned by GET /v1/responses/{id}.
std::string ResponseJson(const ResponseState& state);

// `accepted`, an extension that only chats see, before response.created: the message is durable and
// will be answered once, as turn `turn` of its dialog, after `position` earlier turns.
struct AcceptedEvent {
  std::string message_id, response_id;
  int64_t turn = 0;
  size_t position = 0;
};

// The state of the whole response. Its type is LifecycleType(state->status), or response.created.
struct LifecycleEvent {
  bool created = false;
  std::shared_ptr<const ResponseState> state;
};

// `context.truncated`, an extension: so much of the dialog is not in this prompt and was in the one
// before.
struct ContextTruncatedEvent {
  std::string response_id;
  int64_t turns = 0, items = 0;
};

// `index`: position of the item in the output. Events of one item share it.
using SharedItem = std::shared_ptr<const OutputItem>;

struct ItemAddedEvent {  // an item without text or arguments
  size_t index = 0;
  SharedItem item;
};
struct PartAddedEvent {
  size_t index = 0;
  SharedItem item;
};
struct TextDeltaEvent {  // more text of a message or of reasoning
  size_t index = 0;
  std::string item_id, text;
  bool reasoning = false;
  std::vector<api::TokenLogprobs> tokens = {};  // of the text, if asked for
};
struct ArgumentsDeltaEvent {
  size_t index = 0;
  std::string item_id, arguments;
};
// The rest repeat the whole text of a message or reasoning item, or the whole call.
struct TextDoneEvent {
  size_t index = 0;
  SharedItem item;
};
struct PartDoneEvent {
  size_t index = 0;
  SharedItem item;
};
struct ArgumentsDoneEvent {
  size_t index = 0;
  SharedItem item;
};
struct ItemDoneEvent {
  size_t index = 0;
  SharedItem item;
  std::string_view status;  // "completed"; lives as long as the program
};

using ResponseEvent =
    std::variant<AcceptedEvent, LifecycleEvent, ContextTruncatedEvent, ItemAddedEvent,
                 PartAddedEvent, TextDeltaEvent, ArgumentsDeltaEvent, TextDoneEvent, PartDoneEvent,
                 ArgumentsDoneEvent, ItemDoneEvent>;

// "response.output_text.delta"; lives as long as the program.
std::string_view EventType(const ResponseEvent& event);

// No event of the response follows it.
bool IsTerminal(const ResponseEvent& event);

// Memory of an event. Parts shared by several events count for each.
size_t EventBytes(const ResponseEvent& event);

// Members that only some readers get, behind the others.
struct EventExtras {
  // The event is several deltas in one, and this is the number of the first.
  std::optional<int64_t> first_sequence = {};
  // Characters of padding, so that sizes of network packets do not reveal the words; 0: none.
  size_t padding = 0;
};

// A compact object with `type` and `sequence_number`.
std::string EventJson(const ResponseEvent& event, int64_t sequence, const EventExtras& extras = {});

// `error` event for a request that created no response, or for a stream that cannot continue; flat,
// as in the Responses API. `message_id` is the client's and is omitted when empty; `sequence` is
// omitted when the event belongs to no log.
std::string ErrorEvent(std::optional<int64_t> sequence, const Status& error,
                       std::string_view message_id);

}  // namespace tutti::protocol
