#include "client/mqtt/dialect.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <chrono>

#include "base/quote.h"

namespace tutti::client {
namespace {

namespace json = boost::json;

constexpr size_t kMaxLevelBytes = 128;

StatusCode CodeOf(std::string_view reason) {
  if (reason == "rate_limit_exceeded" || reason == "overloaded")
    return StatusCode::kResourceExhausted;
  if (reason == "cancelled") return StatusCode::kCancelled;
  if (reason == "insufficient_scope") return StatusCode::kPermissionDenied;
  if (reason == "not_found" || reason == "model_not_found" || reason == "expired")
    return StatusCode::kNotFound;
  if (reason == "deadline_exceeded") return StatusCode::kDeadlineExceeded;
  return StatusCode::kUnavailable;
}

}  // namespace

json::object ObjectOf(std::string_view payload) {
  boost::system::error_code failed;
  json::value value = json::parse(json::string_view(payload.data(), payload.size()), failed);
  return failed || !value.is_object() ? json::object() : std::move(value.get_object());
}

std::string TextAt(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->get_string().data(), value->get_string().size());
}

std::optional<int64_t> NumberAt(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr) return std::nullopt;
  if (value->is_int64()) return value->get_int64();
  if (value->is_double()) {
    const double number = value->get_double();
    if (number > -9e15 && number < 9e15) return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

const json::object* ObjectAt(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || !value->is_object() ? nullptr : &value->get_object();
}

std::optional<std::string> OutputTextIn(const json::object& response) {
  const json::value* const output = response.if_contains("output");
  if (output == nullptr || !output->is_array()) return std::nullopt;
  std::optional<std::string> whole;
  for (const json::value& item : output->get_array()) {
    if (!item.is_object() || TextAt(item.get_object(), "type") == "reasoning") continue;
    boost::system::error_code failed;
    const json::value* const part = item.find_pointer("/content/0", failed);
    if (failed || part == nullptr || !part->is_object()) continue;
    whole = whole.value_or("") + TextAt(part->get_object(), "text");
  }
  return whole;
}

std::string PropertyOf(const mqtt::Publish& message, std::string_view name) {
  for (const auto& [key, value] : message.properties.user) {
    if (key == name) return value;
  }
  return "";
}

Status ErrorIn(const json::object& error) {
  const std::string code = TextAt(error, "code"), message = TextAt(error, "message");
  const std::string reason = code.empty() ? "server_error" : code;
  Status status(CodeOf(reason), reason, message.empty() ? "the server says " + reason : message);
  const std::optional<int64_t> wait = NumberAt(error, "retry_after_ms");
  if (!wait.has_value()) return status;
  return std::move(status).WithRetryAfter(std::chrono::milliseconds(std::max<int64_t>(*wait, 0)));
}

Status CheckLevel(const std::string& name, const char* what) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxLevelBytes &&
      std::all_of(name.begin(), name.end(), fits)) {
    return OkStatus();
  }
  return InvalidArgument(
      "invalid_value",
      std::string(what) + " must be 1 to 128 letters, digits and _ . -, not " + Quote(name));
}

}  // namespace tutti::client
