// The field Idempotency-Key, with which a client identifies a request, so that it can safely send
// the request again. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "server/http/connection/message_parser.h"

namespace tutti::http {

inline constexpr const char* kIdempotencyKey = "idempotency-key";

// Returns the key, or an empty string if there is none. Errors: invalid_value.
Result<std::string> ReadIdempotencyKey(const HttpRequest& request);

}  // namespace tutti::http
