// Errors of encoding calls. api::Inference calls the inputs "input" and "input[3]"; clients get the
// name of the field in their request.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

// 3 for "input[3]"; nullopt for any other `param`.
std::optional<size_t> BlamedInput(std::string_view param);

// Replaces "input" by `list` and "input[3]" by "list[3]"; other errors are not changed.
Status BlameList(const std::string& list, Status status);

// The refusal of a model that gives other scores than one for each pair.
Status RanksNothing(const std::string& model);

}  // namespace tutti::protocol
