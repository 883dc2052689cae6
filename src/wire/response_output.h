// The output of a response as a list of items: messages, and calls of functions, in the order in
// which the model wrote them. A text that is interrupted by calls is several messages. Pure.
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
  std::string id;                          // "msg_..." of a message, "fc_..." of a call
  std::string text = {};                   // of a message
  std::optional<api::ToolCall> call = {};  // absent: a message
};

// The items that there are. A response that ended well without calls has one message, which may be
// empty.
std::vector<OutputItem> OutputOf(const ResponseState& state);

// Ids of the n-th message and of the n-th call, from 0: the same whenever they are asked for.
std::string MessageItemId(const ResponseState& state, size_t n);
std::string CallItemId(const ResponseState& state, size_t n);

// The status of the output's last item; those before it are "completed".
std::string_view LastItemStatus(ResponseStatus status);

}  // namespace tutti::wire
