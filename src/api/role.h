// The roles of a conversation by the words that clients, templates and records write. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "api/types.h"

namespace tutti::api {

std::string_view RoleName(Role role);  // "system", "user", "assistant", "tool"
// Also of "developer", which OpenAI's clients write for "system". Nothing for any other word.
std::optional<Role> FindRole(std::string_view word);

}  // namespace tutti::api
