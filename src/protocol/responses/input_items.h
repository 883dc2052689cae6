// Parses items of a dialog: the `input` of a response, the `items` of a conversation. Text
// messages, reasoning, function calls and their outputs are supported; other kinds (references,
// images, calls of other tools) are refused by name. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

struct InputItem {
  api::Role role = api::Role::kUser;       // kTool: the output of a call
  std::string text;                        // parts already joined with '\n'
  std::vector<size_t> part_ends = {};      // as api::ChatMessage
  std::optional<api::ToolCall> call = {};  // of kAssistant: the item is a call, without text
  std::string tool_call_id = {};           // of kTool
  std::string reasoning = {};              // of kAssistant: the item is reasoning, without text
  friend bool operator==(const InputItem&, const InputItem&) = default;
};

// Converts an item to a message; function calls and reasoning become messages without content.
api::ChatMessage MessageOf(const InputItem& item);
// Whether a message consists of reasoning only, which belongs to the following assistant message.
bool IsReasoning(const api::ChatMessage& item);
// Prefix of an item's id: "msg_"; "fc_" for a call, "fco_" for the output of a call, "rs_" for
// reasoning.
std::string_view ItemIdPrefix(const api::ChatMessage& item);

// A list of at most `most` items, which may be empty. Reasoning without a text that can be read is
// left out.
// Errors: unsupported_parameter for another kind of item or part; as checked_object.h.
Result<std::vector<InputItem>> ReadInputItems(const Json& value, const std::string& param,
                                              size_t most, bool strict, IgnoredFields* ignored);

// Parses the input of a turn: a text, which is one user message, or a list of items. Errors:
// empty_prompt if no item has a text or belongs to a call.
Result<std::vector<InputItem>> ReadTurnInput(const Json& value, bool strict,
                                             IgnoredFields* ignored);

}  // namespace tutti::protocol
