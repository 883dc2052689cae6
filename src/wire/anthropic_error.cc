#include "wire/anthropic_error.h"

#include "wire/json_writer.h"

namespace tutti::wire {

std::string_view AnthropicErrorType(int http) {
  switch (http) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 410:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      // 499 is a request that was cancelled by another one.
      return http < 499 ? "invalid_request_error" : "api_error";
  }
}

std::string AnthropicErrorBody(const ErrorView& error) {
  // The form has no place for the field of an error but its message.
  const bool named = error.param.empty() || error.message.find(error.param) != std::string::npos;
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Member("type", "error").Key("error").BeginObject();
  json.Member("type", error.type);
  json.Member("message", named ? error.message : error.param + ": " + error.message);
  json.EndObject();
  if (error.request_id.empty()) {
    json.Member("request_id", nullptr);
  } else {
    json.Member("request_id", error.request_id);
  }
  json.EndObject();
  return body;
}

}  // namespace tutti::wire
