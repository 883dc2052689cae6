// ResponseState: the public state of one response of the Responses API, as a plain value, and its
// output as a list of items. The owner of the response keeps the state up to date;
// responses/events.h renders it. One writer at a time; the functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "protocol/json/metadata.h"

namespace tutti::protocol {

// State machine: queued -> in_progress -> one of the final states; queued -> cancelled or failed.
enum class ResponseStatus { kQueued, kInProgress, kCompleted, kIncomplete, kFailed, kCancelled };

constexpr bool IsFinal(ResponseStatus status) {
  return status != ResponseStatus::kQueued && status != ResponseStatus::kInProgress;
}

// A function call in the output.
struct OutputCall {
  api::ToolCall call;
  size_t text_before = 0;  // bytes of ResponseState::text that stand before it
  friend bool operator==(const OutputCall&, const OutputCall&) = default;
};

// A piece of reasoning in the output, separated from text and calls.
struct OutputReasoning {
  std::string text;         // not empty
  size_t text_before = 0;   // bytes of ResponseState::text that stand before it
  size_t calls_before = 0;  // calls that stand before it
  friend bool operator==(const OutputReasoning&, const OutputReasoning&) = default;
};

// A token of the output text, if log-probabilities were asked for.
struct OutputToken {
  api::TokenLogprobs logprobs;
  size_t text_before = 0;  // bytes of ResponseState::text before the delta that the token is in
};

struct ResponseState {
  std::string id;                      // "resp_" and 32 hex digits that cannot be guessed
  std::string item_id;                 // "msg_" and the same: of its first output message
  int64_t created_s = 0;               // unix seconds
  std::optional<int64_t> completed_s;  // of a completed one
  ResponseStatus status = ResponseStatus::kInProgress;
  bool background = false, store = true;
  std::string model;  // as served
  std::optional<std::string> instructions;
  std::optional<int> max_output_tokens;
  double temperature = 1, top_p = 1;
  std::string service_tier = "default";
  std::string truncation = "disabled";  // or "auto"
  Metadata metadata;
  std::string previous_response_id, conversation;  // empty: none
  std::vector<api::Tool> tools;                    // echoed, as are the two that follow
  api::ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  int logprobs = -1;                       // echoed; as api::SamplingParams
  std::string text;                        // of the output messages, so far
  std::vector<OutputToken> tokens;         // of `text`, in its order; none unless asked for
  std::vector<OutputCall> calls;           // tool calls so far, in order; OutputOf() lists them
  std::vector<OutputReasoning> reasoning;  // in its order
  std::string incomplete_reason;           // "max_output_tokens"; of an incomplete one
  std::string error_code, error_message;   // of a failed one; both empty: none
  std::string error_param;                 // the field that is to blame; empty: none
  std::optional<api::Usage> usage;         // known at the end
};

// --- the output as a list of items ---
//
// Reasoning, messages and function calls, in the order of generation. Text that calls or reasoning
// interrupt becomes several messages.

struct OutputItem {
  std::string id;         // "msg_..." of a message, "fc_..." of a call, "rs_..." of reasoning
  std::string text = {};  // of a message or of reasoning
  std::optional<api::ToolCall> call = {};  // absent: a message or reasoning
  bool reasoning = false;
  std::vector<api::TokenLogprobs> tokens = {};  // of a message's text, if asked for
};

// The items so far. A completed response has at least one message or call, and an incomplete one at
// least one item; if needed, an empty message is appended.
std::vector<OutputItem> OutputOf(const ResponseState& state);

// Ids of the n-th message, call and reasoning item, from 0; the same for every call.
std::string MessageItemId(const ResponseState& state, size_t n);
std::string CallItemId(const ResponseState& state, size_t n);
std::string ReasoningItemId(const ResponseState& state, size_t n);

// Status of the last output item; all earlier items are "completed".
std::string_view LastItemStatus(ResponseStatus status);

}  // namespace tutti::protocol
