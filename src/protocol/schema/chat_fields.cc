#include "protocol/schema/chat_fields.h"

#include <algorithm>
#include <utility>

#include "api/validate.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

// A tool of another type is refused for what it is, before the schema reads its fields. Clients
// leave out the one type there is.
Status CheckFunctionType(const Json& value, const std::string& path) {
  const Json* type = value.is_object() ? value.get_object().if_contains("type") : nullptr;
  if (type == nullptr || !type->is_string() || TextOf(*type) == "function") return OkStatus();
  return NotSupported(
      path, path + " is of type " + Excerpt(TextOf(*type)) + "; only type function is supported");
}

// Chat completions and Responses write the same tool in two forms, which clients confuse.
Status CheckForm(const Json& value, const std::string& path, bool flat) {
  if (!value.is_object()) return OkStatus();
  const JsonObject& tool = value.get_object();
  const bool has_function = tool.contains("function"), has_name = tool.contains("name");
  if (!flat && !has_function && has_name) {
    return IsMissing(path + ".function",
                     path + R"(.function is missing; here a tool is {"type": "function", )"
                            R"("function": {"name": ..., "parameters": ...}})");
  }
  if (flat && has_function && !has_name) {
    return IsMissing(path + ".name", path +
                                         R"(.name is missing; here a tool is {"type": "function", )"
                                         R"("name": ..., "parameters": ...})");
  }
  return OkStatus();
}

Result<api::Tool> ReadFunction(const CheckedObject& function, const std::string& path) {
  api::Tool tool{.name = *function.Text("name"),
                 .description = function.Text("description").value_or(""),
                 .strict = function.Bool("strict").value_or(false),
                 .param = path};
  if (const Json* parameters = function.Find("parameters"); parameters != nullptr) {
    if (!parameters->is_object())
      return MustBe(function.Param("parameters"), "a JSON schema: an object");
    tool.parameters = PrintJson(*parameters);  // its members keep their order
  }
  return tool;
}

Result<api::Tool> ReadTool(const Json& value, const std::string& path, bool flat, bool strict,
                           IgnoredFields* ignored) {
  RETURN_IF_ERROR(CheckFunctionType(value, path));
  RETURN_IF_ERROR(CheckForm(value, path, flat));
  if (flat) {
    ASSIGN_OR_RETURN(const CheckedObject function,
                     CheckedObject::Check(kResponseTool, value, path, strict, ignored));
    return ReadFunction(function, path);
  }
  ASSIGN_OR_RETURN(const CheckedObject tool,
                   CheckedObject::Check(kTool, value, path, strict, ignored));
  const std::string inner = path + ".function";
  ASSIGN_OR_RETURN(
      const CheckedObject function,
      CheckedObject::Check(kToolFunction, *tool.Find("function"), inner, strict, ignored));
  return ReadFunction(function, inner);
}

// {"type":"function"} with the function's name, in the form of the tools.
Result<api::ToolChoice> ReadNamedTool(const JsonObject& object, const std::string& param,
                                      bool flat) {
  const Json* type = object.if_contains("type");
  if (type == nullptr || !type->is_string())
    return MustBe(param + ".type", "the type of a tool: function");
  if (TextOf(*type) != "function") {
    return NotSupported(param, param + ".type " + Excerpt(TextOf(*type)) +
                                   " is not supported; use none, auto, required or a function");
  }
  std::string path = param + ".name";
  const JsonObject* holder = &object;
  if (!flat) {
    path = param + ".function.name";
    const Json* function = object.if_contains("function");
    if (function == nullptr) return IsMissing(param + ".function");
    if (!function->is_object()) return MustBe(param + ".function", "an object with a name");
    holder = &function->get_object();
  }
  const Json* name = holder->if_contains("name");
  if (name == nullptr) return IsMissing(path);
  if (!name->is_string()) return MustBe(path, "a string");
  return api::ToolChoice{api::ToolChoice::Kind::kNamed, std::string(TextOf(*name))};
}

Result<api::ToolChoice> ReadToolChoice(const Json& value, const std::string& param, bool flat) {
  using Kind = api::ToolChoice::Kind;
  if (value.is_object()) return ReadNamedTool(value.get_object(), param, flat);
  const std::string_view word = value.is_string() ? TextOf(value) : std::string_view();
  if (word == "auto") return api::ToolChoice{Kind::kAuto};
  if (word == "none") return api::ToolChoice{Kind::kNone};
  if (word == "required") return api::ToolChoice{Kind::kRequired};
  return MustBe(param, "none, auto, required or an object that names a function");
}

constexpr const char* kTemplateArguments = "chat_template_kwargs";

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

Result<TextContent> ReadTextContent(const Json& content, const std::string& param,
                                    const PartReader& read_part) {
  if (content.is_string()) return TextContent{.text = std::string(TextOf(content))};
  if (!content.is_array())
    return BadValue(param, param + " must be a string or a list of text parts");
  const JsonArray& parts = content.get_array();
  if (parts.empty()) return BadValue(param, param + " must hold at least one part");
  TextContent joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string text, read_part(parts[i], ElementPath(param, i)));
    joined.Append(text);
  }
  return joined;
}

Status ReadTools(const CheckedObject& object, bool strict, IgnoredFields* ignored,
                 api::ChatPrompt* chat) {
  const bool flat = (object.scope() & kTurn) != 0;
  if (const Json* tools = object.Find("tools"); tools != nullptr) {
    const JsonArray& list = tools->get_array();
    chat->tools.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      ASSIGN_OR_RETURN(api::Tool tool, ReadTool(list[i], ElementPath(object.Param("tools"), i),
                                                flat, strict, ignored));
      chat->tools.push_back(std::move(tool));
    }
  }
  if (const Json* choice = object.Find("tool_choice"); choice != nullptr) {
    ASSIGN_OR_RETURN(chat->tool_choice, ReadToolChoice(*choice, object.Param("tool_choice"), flat));
  }
  chat->parallel_tool_calls = object.Bool("parallel_tool_calls").value_or(true);
  return api::ValidateTools(*chat);
}

Status RefuseTools(const CheckedObject& object) {
  api::ChatPrompt chat;
  IgnoredFields ignored;
  RETURN_IF_ERROR(ReadTools(object, /*strict=*/false, &ignored, &chat));
  if (chat.tools.empty()) return OkStatus();
  return NotSupported(object.Param("tools"),
                      "tools need messages; send messages instead of a prompt");
}

Result<std::vector<api::ToolCall>> ReadToolCalls(const JsonArray& list, const std::string& path,
                                                 bool strict, IgnoredFields* ignored) {
  std::vector<api::ToolCall> calls;
  calls.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = ElementPath(path, i);
    RETURN_IF_ERROR(CheckFunctionType(list[i], at));
    ASSIGN_OR_RETURN(const CheckedObject call,
                     CheckedObject::Check(kToolCall, list[i], at, strict, ignored));
    ASSIGN_OR_RETURN(const CheckedObject function,
                     CheckedObject::Check(kCalledFunction, *call.Find("function"), at + ".function",
                                          strict, ignored));
    std::string arguments = function.Text("arguments").value_or("");
    if (arguments.empty()) arguments = "{}";
    calls.push_back({*call.Text("id"), *function.Text("name"), std::move(arguments)});
  }
  return calls;
}

Result<std::string> ReadTemplateArguments(const CheckedObject& object, std::string_view effort,
                                          std::optional<bool> thinking) {
  const Json* given = object.Find(kTemplateArguments);
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
  return Canonical(options, object.Param(kTemplateArguments));
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
  for (const char* const name : {kTemplateArguments, "reasoning_effort", "enable_thinking"}) {
    const Json* given = object.Find(name);
    if (given == nullptr || (given->is_object() && given->get_object().empty())) continue;
    return NotSupported(object.Param(name),
                        std::string(name) + " needs messages: no template renders a prompt");
  }
  return OkStatus();
}

}  // namespace tutti::protocol
