// Errors of the Anthropic Messages API. Pure.
//
// Its clients branch on the status; the message is for people and therefore names the field. The
// statuses are those of the error table: an overloaded server sends 503, which proxies and load
// balancers understand, and not Anthropic's 529.
#pragma once

#include <string>
#include <string_view>

#include "wire/error.h"

namespace tutti::wire {

// Error type for an HTTP status: "invalid_request_error", "overloaded_error", ...
std::string_view AnthropicErrorType(int http);

// {"type":"error","error":{"type","message"},"request_id"}; request_id is null if `error` has none.
std::string AnthropicErrorBody(const ErrorView& error);

}  // namespace tutti::wire
