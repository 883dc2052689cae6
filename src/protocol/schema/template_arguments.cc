#include "protocol/schema/template_arguments.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "protocol/json/field_error.h"
#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

constexpr const char* kName = "chat_template_kwargs";

size_t DepthOf(const Json& value) {
  size_t deepest = 0;
  if (value.is_object()) {
    for (const auto& member : value.get_object())
      deepest = std::max(deepest, DepthOf(member.value()));
  } else if (value.is_array()) {
    for (const Json& element : value.get_array()) deepest = std::max(deepest, DepthOf(element));
  } else {
    return 0;
  }
  return deepest + 1;
}

// The same options in another order give the same text, so that caches find it. Members of nested
// objects keep their order, which a template can see when it iterates over them.
Result<std::string> Canonical(const JsonObject& options, const std::string& param) {
  if (options.empty()) return std::string();
  std::vector<const JsonObject::value_type*> members;
  for (const auto& member : options) members.push_back(&member);
  std::sort(members.begin(), members.end(),
            [](const auto* a, const auto* b) { return a->key() < b->key(); });
  JsonObject sorted;
  for (const auto* member : members) sorted.emplace(member->key(), member->value());
  const Json whole(std::move(sorted));
  if (DepthOf(whole) > kMaxTemplateArgumentDepth) {
    return BadValue(param, param + " is nested deeper than " +
                               std::to_string(kMaxTemplateArgumentDepth) + " levels");
  }
  std::string text = PrintJson(whole);
  if (text.size() > kMaxTemplateArgumentBytes) {
    return BadValue(param, param + " has " + std::to_string(text.size()) + " bytes, limit " +
                               std::to_string(kMaxTemplateArgumentBytes));
  }
  return text;
}

}  // namespace

Result<std::string> ReadTemplateArguments(const CheckedObject& object, std::string_view effort,
                                          std::optional<bool> thinking) {
  const Json* given = object.Find(kName);
  JsonObject options = given == nullptr ? JsonObject() : given->get_object();
  // OpenAI's name of what templates call the same; an option that is given itself stands.
  std::string asked(effort);
  if (const Json* given_effort = object.FindNeutral("reasoning_effort");
      given_effort != nullptr && given_effort->is_string())
    asked = TextOf(*given_effort);
  const bool no_thinking = asked == "none";
  if (!asked.empty() && !no_thinking) options.emplace("reasoning_effort", asked);
  // Hosted servers of Qwen's models accept the field here.
  if (const std::optional<bool> enabled = object.Bool("enable_thinking"))
    options.emplace("enable_thinking", *enabled);
  if (thinking.has_value()) options.emplace("enable_thinking", *thinking);
  if (no_thinking) options.emplace("enable_thinking", false);
  return Canonical(options, object.Param(kName));
}

Result<std::string> ParseTemplateArguments(std::string_view text, const std::string& param) {
  if (text.empty()) return std::string();
  if (text.size() > kMaxTemplateArgumentBytes) {
    return BadValue(param, param + " has " + std::to_string(text.size()) + " bytes, limit " +
                               std::to_string(kMaxTemplateArgumentBytes));
  }
  Result<JsonDocument> document = ParseJson(text);
  if (!document.ok() || !document->root().is_object())
    return MustBe(param, R"(a JSON object, such as {"enable_thinking": false})");
  return Canonical(document->root().get_object(), param);
}

Status RefuseTemplateArguments(const CheckedObject& object) {
  for (const char* const name : {kName, "reasoning_effort", "enable_thinking"}) {
    const Json* given = object.Find(name);
    if (given == nullptr || (given->is_object() && given->get_object().empty())) continue;
    return InvalidArgument("unsupported_parameter",
                           std::string(name) + " needs messages: no template renders a prompt")
        .WithParam(object.Param(name));
  }
  return OkStatus();
}

}  // namespace tutti::protocol
