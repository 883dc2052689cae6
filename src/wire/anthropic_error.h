// Errors as Anthropic's Messages API shows them. Pure.
//
// Its clients choose by the status, and people read the message, which therefore names the field.
// The statuses are those of the error table: a full server is 503, which proxies and load balancers
// understand, where Anthropic's own is 529.
#pragma once

#include <string>
#include <string_view>

#include "wire/error.h"

namespace tutti::wire {

// "invalid_request_error", "overloaded_error", ... of an error with that HTTP status.
std::string_view AnthropicErrorType(int http);

// {"type":"error","error":{"type","message"},"request_id"}; request_id is null where `error` has
// none.
std::string AnthropicErrorBody(const ErrorView& error);

}  // namespace tutti::wire
