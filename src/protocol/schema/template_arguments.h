// Chat template options of requests: chat_template_kwargs, and the separate fields reasoning_effort
// and enable_thinking. The gateway checks them against the model's template (gateway/prompt.h).
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

inline constexpr size_t kMaxTemplateArgumentBytes = 16 << 10;
inline constexpr size_t kMaxTemplateArgumentDepth = 16;

// As api::ChatPrompt::template_arguments: a JSON object as text, with its members in order of their
// names; empty where nothing is asked. `object` has been checked against a scope that prompts a
// model with messages. Errors: invalid_value for one that is nested too deep.
// `effort` and `thinking`: values of reasoning_effort and enable_thinking that another field has
// set; empty and nullopt: none has. The effort "none" turns thinking off where the template can.
Result<std::string> ReadTemplateArguments(const CheckedObject& object, std::string_view effort = "",
                                          std::optional<bool> thinking = std::nullopt);
// Like ReadTemplateArguments, for an object given as text, from servers whose requests are not
// JSON. `param` names it in errors, which include those of ParseJson.
Result<std::string> ParseTemplateArguments(std::string_view text, const std::string& param);

// Errors: unsupported_parameter if template options are given for a prompt that uses no template.
Status RefuseTemplateArguments(const CheckedObject& object);

}  // namespace tutti::protocol
