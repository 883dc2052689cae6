// The waist blames "input" or "input[3]" for what it refuses of an encoding; a door's clients know
// their inputs under names of its own, and are told those. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::wire {

// 3 of "input[3]"; nothing for any other `param`.
std::optional<size_t> BlamedInput(std::string_view param);

// A refusal that blames "input" or "input[3]" blames `list` or "list[3]"; others stay as they are.
Status BlameList(const std::string& list, Status status);

}  // namespace tutti::wire
