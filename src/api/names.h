// Names of conversation roles and finish reasons, as in the OpenAI API, and of causes of misses;
// those of roles also in chat templates and stored records. Pure.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "api/types.h"

namespace tutti::api {

inline constexpr std::array<std::pair<Role, std::string_view>, 4> kRoleNames = {
    {{Role::kSystem, "system"},
     {Role::kUser, "user"},
     {Role::kAssistant, "assistant"},
     {Role::kTool, "tool"}}};

inline std::string_view RoleName(Role role) {
  for (const auto& [each, name] : kRoleNames) {
    if (each == role) return name;
  }
  return "user";
}

// Role of a name; "developer" is an alias of "system", as in the OpenAI API. nullopt if unknown.
inline std::optional<Role> FindRole(std::string_view word) {
  if (word == "developer") return Role::kSystem;
  for (const auto& [role, name] : kRoleNames) {
    if (name == word) return role;
  }
  return std::nullopt;
}

constexpr std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
  }
  return "stop";
}

// "" for kNone.
constexpr std::string_view CauseName(PrefixReport::Cause cause) {
  switch (cause) {
    case PrefixReport::Cause::kNone:
      return "";
    case PrefixReport::Cause::kOff:
      return "off";
    case PrefixReport::Cause::kNotBlockAligned:
      return "not_block_aligned";
    case PrefixReport::Cause::kOnDiskFailed:
      return "on_disk_failed";
    case PrefixReport::Cause::kEvicted:
      return "evicted";
    case PrefixReport::Cause::kDifferentSalt:
      return "different_salt";
    case PrefixReport::Cause::kNeverSeen:
      return "never_seen";
  }
  return "";
}

}  // namespace tutti::api
