#include "client/error_text.h"

#include <boost/json/serialize.hpp>
#include <string_view>

namespace tutti::client {
namespace {

std::string TextOf(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
}

}  // namespace

std::string ErrorText(const boost::json::value& answer) {
  if (!answer.is_object()) return "";
  const boost::json::object& object = answer.get_object();
  if (const boost::json::value* error = object.if_contains("error");
      error != nullptr && !error->is_null()) {
    const boost::json::value* message =
        error->is_object() ? error->get_object().if_contains("message") : nullptr;
    return TextOf(message != nullptr ? *message : *error);
  }
  // Answers have choices or data; {"object": "error", "message"} and {"detail"} have neither.
  if (object.contains("choices") || object.contains("data")) return "";
  for (const std::string_view name : {"message", "detail"}) {
    const boost::json::value* text = object.if_contains(name);
    if (text != nullptr && !text->is_null()) return TextOf(*text);
  }
  return "";
}

}  // namespace tutti::client
