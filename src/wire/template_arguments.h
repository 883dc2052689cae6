// Options of a model's chat template as requests give them: chat_template_kwargs, and
// reasoning_effort and enable_thinking, which are two of them as fields of their own. What the
// template reads is known to the model alone (gateway/prompt.h). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/checked_object.h"

namespace tutti::wire {

inline constexpr size_t kMaxTemplateArgumentBytes = 16 << 10;
inline constexpr size_t kMaxTemplateArgumentDepth = 16;

// As api::ChatPrompt::template_arguments: a JSON object as text, with its members in order of their
// names; empty where nothing is asked. `object` has been checked against a scope that prompts a
// model with messages. Errors: invalid_value for one that is nested too deep.
// `effort` and `thinking`: what another field says of reasoning_effort and enable_thinking; empty
// and nullopt: nothing.
Result<std::string> ReadTemplateArguments(const CheckedObject& object, std::string_view effort = "",
                                          std::optional<bool> thinking = std::nullopt);
// The same of an object that comes as text, by a server whose requests are no JSON. `param` names
// it in errors, which are also those of JSON.
Result<std::string> ParseTemplateArguments(std::string_view text, const std::string& param);

// Errors: unsupported_parameter where options are given beside a prompt that no template renders.
Status RefuseTemplateArguments(const CheckedObject& object);

}  // namespace tutti::wire
