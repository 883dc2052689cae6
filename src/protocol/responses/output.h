// The output of a response as a list of items: reasoning, messages and function calls, in the order
// of generation. Text that calls or reasoning interrupt becomes several messages. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "protocol/responses/state.h"

namespace tutti::protocol {

struct OutputItem {
  std::string id;         // "msg_..." of a message, "fc_..." of a call, "rs_..." of reasoning
  std::string text = {};  // of a message or of reasoning
  std::optional<api::ToolCall> call = {};  // absent: a message or reasoning
  bool reasoning = false;
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
