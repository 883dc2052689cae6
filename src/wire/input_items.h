// Items of a dialog as clients write them: the `input` of a response, the `items` of a
// conversation. Only messages of text are read; other kinds (calls of tools, references, images)
// are refused by name. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "wire/checked_object.h"
#include "wire/json.h"

namespace tutti::wire {

struct InputItem {
  api::Role role = api::Role::kUser;   // never kTool
  std::string text;                    // parts already joined with '\n'
  std::vector<size_t> part_ends = {};  // as api::ChatMessage
  friend bool operator==(const InputItem&, const InputItem&) = default;
};

// One item; `path` is "input[2]".
// Errors: unsupported_parameter for another kind of item or part; as checked_object.h.
Result<InputItem> ReadInputItem(const Json& value, const std::string& path, bool strict,
                                IgnoredFields* ignored);

// A list of at most `most` items, which may be empty.
Result<std::vector<InputItem>> ReadInputItems(const Json& value, const std::string& param,
                                              size_t most, bool strict, IgnoredFields* ignored);

// What a turn is asked: a text, which is one message of the user, or a list of items. Errors:
// empty_prompt where no item has a text.
Result<std::vector<InputItem>> ReadTurnInput(const Json& value, bool strict,
                                             IgnoredFields* ignored);

}  // namespace tutti::wire
