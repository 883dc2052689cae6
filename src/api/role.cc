#include "api/role.h"

#include <array>
#include <utility>

namespace tutti::api {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 4> kRoles = {
    {{Role::kSystem, "system"},
     {Role::kUser, "user"},
     {Role::kAssistant, "assistant"},
     {Role::kTool, "tool"}}};

}  // namespace

std::string_view RoleName(Role role) {
  for (const auto& [each, name] : kRoles) {
    if (each == role) return name;
  }
  return "user";
}

std::optional<Role> FindRole(std::string_view word) {
  if (word == "developer") return Role::kSystem;
  for (const auto& [role, name] : kRoles) {
    if (name == word) return role;
  }
  return std::nullopt;
}

}  // namespace tutti::api
