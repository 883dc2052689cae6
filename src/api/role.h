// Names of conversation roles, as in the OpenAI API, chat templates and stored records. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "api/types.h"

namespace tutti::api {

std::string_view RoleName(Role role);  // "system", "user", "assistant", "tool"
// Role of a name; "developer" is an alias of "system", as in the OpenAI API. nullopt if unknown.
std::optional<Role> FindRole(std::string_view word);

}  // namespace tutti::api
