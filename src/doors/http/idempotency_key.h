// The field Idempotency-Key: by which a client names a request, so that it can send it again. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "doors/http/message_parser.h"

namespace tutti::http {

inline constexpr const char* kIdempotencyKey = "idempotency-key";

// Empty: there is none. Errors: invalid_value.
Result<std::string> ReadIdempotencyKey(const HttpRequest& request);

}  // namespace tutti::http
