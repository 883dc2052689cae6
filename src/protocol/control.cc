#include "protocol/control.h"

#include <utility>

namespace tutti::protocol {

Result<std::string> AnswerControl(std::string_view request, size_t max_bytes, size_t max_values,
                                  const ControlWriter& write) {
  if (request.size() > max_bytes) {
    return ResourceExhausted("request_too_large", "the request is longer than " +
                                                      std::to_string(max_bytes >> 10) + " KiB");
  }
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(request, max_values));
  if (!document.root().is_object()) return BadControl("", "the request must be an object");
  JsonWriter json;
  json.BeginObject();
  RETURN_IF_ERROR(write(document.root().get_object(), &json));
  json.EndObject();
  return json.Take();
}

std::string ControlLine(const Result<std::string>& answer) {
  constexpr std::string_view kEmpty = "{}";
  if (answer.ok()) return R"({"ok":true)" + (*answer == kEmpty ? "}" : "," + answer->substr(1));
  return JsonWriter()
      .BeginObject()
      .Member("ok", false)
      .Member("code", answer.status().reason())
      .Member("message", answer.status().message())
      .EndObject()
      .Take();
}

Status BadControl(std::string_view param, std::string message) {
  return BadValue(std::string(param), std::move(message));
}

std::string_view ControlOperation(const JsonObject& request) {
  const Json* const op = request.if_contains("op");
  return op != nullptr && op->is_string() ? std::string_view(op->get_string()) : std::string_view();
}

bool HasOperation(std::string_view request, std::string_view prefix) {
  constexpr size_t kMaxRequestValues = 1024;
  const Result<JsonDocument> document = ParseJson(request, kMaxRequestValues);
  return document.ok() && document->root().is_object() &&
         ControlOperation(document->root().get_object()).starts_with(prefix);
}

Result<std::string> ControlText(const Json& value, std::string_view name) {
  if (!value.is_string()) return BadControl(name, std::string(name) + " must be a string");
  return std::string(TextOf(value));
}

Result<int64_t> ControlNumber(const Json& value, std::string_view name, int64_t low, int64_t high,
                              const std::string& rule) {
  if (!value.is_int64() || value.get_int64() < low || value.get_int64() > high)
    return BadControl(name, std::string(name) + " must be " + rule);
  return value.get_int64();
}

Result<std::optional<std::string>> OptionalText(const JsonObject& request, std::string_view name) {
  const Json* const value = request.if_contains(name);
  if (value == nullptr) return std::optional<std::string>();
  ASSIGN_OR_RETURN(std::string text, ControlText(*value, name));
  return std::optional<std::string>(std::move(text));
}

Result<std::string> RequiredText(const JsonObject& request, std::string_view name) {
  ASSIGN_OR_RETURN(std::optional<std::string> text, OptionalText(request, name));
  if (!text.has_value()) return BadControl(name, std::string(name) + " is missing");
  return *std::move(text);
}

std::string MemberText(const JsonObject& object, std::string_view name) {
  const Json* const value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

int64_t MemberNumber(const JsonObject& object, std::string_view name) {
  const Json* const value = object.if_contains(name);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

}  // namespace tutti::protocol
