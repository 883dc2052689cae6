// The output of a response as a list of items: reasoning, messages and calls of functions, in the
// order in which the model wrote them. A text that is interrupted by calls or by reasoning is
// several messages. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "wire/response_state.h"

namespace tutti::wire {

struct OutputItem {
  std::string id;         // "msg_..." of a message, "fc_..." of a call, "rs_..." of reasoning
  std::string text = {};  // of a message or of reasoning
  std::optional<api::ToolCall> call = {};  // absent: a message or reasoning
  bool reasoning = false;
};

// The items that there are. A completed response has at least one message or call, and an
// incomplete one at least one item: a message that may be empty is the last of its items where
// there is none.
std::vector<OutputItem> OutputOf(const ResponseState& state);

// Ids of the n-th message, call and reasoning, from 0: the same whenever they are asked for.
std::string MessageItemId(const ResponseState& state, size_t n);
std::string CallItemId(const ResponseState& state, size_t n);
std::string ReasoningItemId(const ResponseState& state, size_t n);

// The status of the output's last item; those before it are "completed".
std::string_view LastItemStatus(ResponseStatus status);

}  // namespace tutti::wire
