#include "wire/input_items.h"

#include <algorithm>

#include "api/role.h"
#include "api/validate.h"
#include "wire/field_error.h"
#include "wire/schema.h"
#include "wire/text_content.h"
#include "wire/utf8.h"

namespace tutti::wire {
namespace {

std::string At(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

// The word under `type`; empty where there is none. Looked at before the schema: an image is to be
// refused for what it is, not for its url field.
std::string_view TypeOf(const Json& value) {
  const Json* type = value.is_object() ? value.get_object().if_contains("type") : nullptr;
  return type != nullptr && type->is_string() ? TextOf(*type) : std::string_view();
}

Status UnknownKind(const std::string& path, std::string_view type, std::string_view hint) {
  return InvalidArgument("unsupported_parameter",
                         path + " is of type " + Excerpt(type) + "; " + std::string(hint))
      .WithParam(path);
}

std::string_view HintFor(std::string_view type) {
  if (type == "item_reference")
    return "send the item itself, or name previous_response_id or conversation";
  if (type.starts_with("function_call") || type.starts_with("custom_tool_call"))
    return "tools are not available in this release";
  return "this server reads items of type message";
}

Result<TextContent> ReadItemContent(const Json& content, const std::string& param, bool strict,
                                    IgnoredFields* ignored) {
  if (content.is_string()) return TextContent{.text = std::string(TextOf(content))};
  if (!content.is_array())
    return BadValue(param, param + " must be a string or a list of text parts");
  if (content.get_array().empty()) return BadValue(param, param + " must hold at least one part");
  TextContent joined;
  for (size_t i = 0; i < content.get_array().size(); ++i) {
    const std::string path = At(param, i);
    const Json& element = content.get_array()[i];
    const std::string_view type = TypeOf(element);
    if (!type.empty() && type != "input_text" && type != "output_text" && type != "text")
      return UnknownKind(path, type, "this model reads text parts only");
    ASSIGN_OR_RETURN(const CheckedObject part,
                     CheckedObject::Check(kInputPart, element, path, strict, ignored));
    joined.Append(*part.Text("text"));
  }
  return joined;
}

}  // namespace

Result<InputItem> ReadInputItem(const Json& value, const std::string& path, bool strict,
                                IgnoredFields* ignored) {
  const std::string_view type = TypeOf(value);
  if (!type.empty() && type != "message") return UnknownKind(path, type, HintFor(type));
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
    ASSIGN_OR_RETURN(InputItem item, ReadInputItem(array[i], At(param, i), strict, ignored));
    items.push_back(std::move(item));
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
  if (std::all_of(items.begin(), items.end(),
                  [](const InputItem& item) { return item.text.empty(); })) {
    return InvalidArgument("empty_prompt", "input is empty; there is nothing to answer")
        .WithParam("input");
  }
  return items;
}

}  // namespace tutti::wire
