#include "tokenizer/huggingface_json.h"

#include <cstdint>
#include <string>

#include "base/quote.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer::huggingface {

namespace json = boost::json;

Status Invalid(std::string_view message) {
  return InvalidArgument("tokenizer_invalid", "tokenizer.json: " + std::string(message));
}
Status Unsupported(std::string_view what, std::string_view value) {
  return InvalidArgument("tokenizer_unsupported",
                         std::string(what) + " " + Quote(value) + " is not supported");
}

const json::value* Member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}
const json::object* ObjectAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  return value != nullptr ? value->if_object() : nullptr;
}
const json::array* ArrayAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  return value != nullptr ? value->if_array() : nullptr;
}
std::optional<std::string_view> TextOf(const json::value* value) {
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  if (text == nullptr) return std::nullopt;
  return std::string_view(text->data(), text->size());
}
std::string_view TextAt(const json::object& object, std::string_view key) {
  return TextOf(Member(object, key)).value_or(std::string_view());
}
std::optional<bool> BoolAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  const bool* flag = value != nullptr ? value->if_bool() : nullptr;
  return flag != nullptr ? std::optional<bool>(*flag) : std::nullopt;
}
std::optional<size_t> IdOf(const json::value* value) {
  const int64_t* number = value != nullptr ? value->if_int64() : nullptr;
  if (number == nullptr || *number < 0 || *number >= static_cast<int64_t>(kMaxTokens))
    return std::nullopt;
  return static_cast<size_t>(*number);
}

std::optional<double> NumberOf(const json::value& value) {
  if (const double* number = value.if_double()) return *number;
  if (const int64_t* number = value.if_int64()) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace tutti::tokenizer::huggingface
