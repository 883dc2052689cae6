#include "protocol/responses/input_items.h"

#include <algorithm>

#include "api/names.h"
#include "api/validate.h"
#include "protocol/json/field_error.h"
#include "protocol/json/text_content.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

// The text of `type`; empty if it is missing. Read before the schema check, so that an image is
// refused as such, not for its url field.
std::string_view TypeOf(const Json& value) { return TextMember(value, "type"); }

Status UnknownKind(const std::string& path, std::string_view type, std::string_view hint) {
  return NotSupported(path, path + " is of type " + Excerpt(type) + "; " + std::string(hint));
}

std::string_view HintFor(std::string_view type) {
  if (type == "item_reference")
    return "send the item itself, or name previous_response_id or conversation";
  return "this server reads items of type message, function_call, function_call_output and "
         "reasoning";
}

Result<TextContent> ReadItemContent(const Json& content, const std::string& param, bool strict,
                                    IgnoredFields* ignored) {
  return ReadTextContent(
      content, param, [&](const Json& element, const std::string& path) -> Result<std::string> {
        const std::string_view type = TypeOf(element);
        if (!type.empty() && type != "input_text" && type != "output_text" && type != "text")
          return UnknownKind(path, type, "this model reads text parts only");
        ASSIGN_OR_RETURN(const CheckedObject part,
                         CheckedObject::Check(kInputPart, element, path, strict, ignored));
        return *part.Text("text");
      });
}

Result<InputItem> ReadMessageItem(const Json& value, const std::string& path, bool strict,
                                  IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kInputItem, value, path, strict, ignored));
  InputItem item;
  item.role = api::FindRole(*object.Text("role")).value_or(api::Role::kSystem);
  ASSIGN_OR_RETURN(TextContent content,
                   ReadItemContent(*object.Find("content"), path + ".content", strict, ignored));
  item.text = std::move(content.text);
  item.part_ends = std::move(content.part_ends);
  return item;
}

Result<InputItem> ReadCallItem(const Json& value, const std::string& path, bool strict,
                               IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kCallItem, value, path, strict, ignored));
  std::string arguments = object.Text("arguments").value_or("");
  if (arguments.empty()) arguments = "{}";
  InputItem item{.role = api::Role::kAssistant, .text = {}};
  item.call = api::ToolCall{*object.Text("call_id"), *object.Text("name"), std::move(arguments)};
  return item;
}

Result<InputItem> ReadCallOutput(const Json& value, const std::string& path, bool strict,
                                 IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kCallOutputItem, value, path, strict, ignored));
  ASSIGN_OR_RETURN(TextContent output,
                   ReadItemContent(*object.Find("output"), path + ".output", strict, ignored));
  InputItem item{.role = api::Role::kTool, .text = std::move(output.text)};
  item.part_ends = std::move(output.part_ends);
  item.tool_call_id = *object.Text("call_id");
  return item;
}

// The text of a reasoning item from an answer of this or another server. Encrypted reasoning
// belongs to another server and is not read.
Result<InputItem> ReadReasoning(const Json& value, const std::string& path, bool strict,
                                IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kReasoningItem, value, path, strict, ignored));
  InputItem item{.role = api::Role::kAssistant, .text = {}};
  const Json* content = object.Find("content");
  if (content == nullptr) return item;
  if (!content->is_array()) return MustBe(object.Param("content"), "a list of parts");
  const JsonArray& parts = content->get_array();
  TextContent joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string at = ElementPath(path + ".content", i);
    const std::string_view type = TypeOf(parts[i]);
    if (!type.empty() && type != "reasoning_text")
      return UnknownKind(at, type, "reasoning has parts of type reasoning_text");
    ASSIGN_OR_RETURN(const CheckedObject part,
                     CheckedObject::Check(kInputPart, parts[i], at, strict, ignored));
    joined.Append(*part.Text("text"));
  }
  item.reasoning = std::move(joined.text);
  return item;
}

Result<InputItem> ReadInputItem(const Json& value, const std::string& path, bool strict,
                                IgnoredFields* ignored) {
  const std::string_view type = TypeOf(value);
  if (type.empty() || type == "message") return ReadMessageItem(value, path, strict, ignored);
  if (type == "function_call") return ReadCallItem(value, path, strict, ignored);
  if (type == "function_call_output") return ReadCallOutput(value, path, strict, ignored);
  if (type == "reasoning") return ReadReasoning(value, path, strict, ignored);
  return UnknownKind(path, type, HintFor(type));
}

}  // namespace

api::ChatMessage MessageOf(const InputItem& item) {
  api::ChatMessage message{item.role, item.text, "", item.part_ends};
  if (item.call.has_value()) message.tool_calls = {*item.call};
  message.tool_call_id = item.tool_call_id;
  message.reasoning = item.reasoning;
  return message;
}

bool IsReasoning(const api::ChatMessage& item) {
  return item.role == api::Role::kAssistant && !item.reasoning.empty() && item.content.empty() &&
         item.tool_calls.empty();
}

std::string_view ItemIdPrefix(const api::ChatMessage& item) {
  if (item.role == api::Role::kTool) return "fco_";
  if (IsReasoning(item)) return "rs_";
  return item.tool_calls.empty() ? "msg_" : "fc_";
}

Result<std::vector<InputItem>> ReadInputItems(const Json& value, const std::string& param,
                                              size_t most, bool strict, IgnoredFields* ignored) {
  if (!value.is_array()) return BadValue(param, param + " must be a list of items");
  const JsonArray& array = value.get_array();
  if (array.size() > most) {
    return BadValue(param, param + " must hold at most " + std::to_string(most) + " items, not " +
                               std::to_string(array.size()));
  }
  std::vector<InputItem> items;
  items.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string path = ElementPath(param, i);
    ASSIGN_OR_RETURN(InputItem item, ReadInputItem(array[i], path, strict, ignored));
    const bool unread = TypeOf(array[i]) == "reasoning" && item.reasoning.empty();
    if (!unread) items.push_back(std::move(item));
  }
  return items;
}

Result<std::vector<InputItem>> ReadTurnInput(const Json& value, bool strict,
                                             IgnoredFields* ignored) {
  std::vector<InputItem> items;
  if (value.is_string()) {
    items.push_back({api::Role::kUser, std::string(TextOf(value))});
  } else if (value.is_array()) {
    ASSIGN_OR_RETURN(items, ReadInputItems(value, "input", api::kMaxMessages, strict, ignored));
  } else {
    return BadValue("input", "input must be a string or a list of items");
  }
  if (std::all_of(items.begin(), items.end(), [](const InputItem& item) {
        return item.text.empty() && !item.call.has_value() && item.tool_call_id.empty();
      })) {
    return InvalidArgument("empty_prompt", "input is empty; there is nothing to answer")
        .WithParam("input");
  }
  return items;
}

}  // namespace tutti::protocol
