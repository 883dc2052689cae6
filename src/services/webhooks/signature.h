// Webhook signatures of Standard Webhooks 1.0.0 (standardwebhooks.com): HMAC-SHA256 over
// "{id}.{timestamp}.{body}", with one secret, or with several during a secret rotation. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::webhooks {

// The bytes of "whsec_" and base64 of 24 to 64 bytes. Errors: invalid_value.
Result<std::string> ReadSecret(std::string_view text);

// The value of webhook-signature: "v1,BASE64" under each secret, separated by blanks.
std::string Sign(std::span<const std::string> secrets, std::string_view id, int64_t unix_s,
                 std::string_view body);

}  // namespace tutti::webhooks
