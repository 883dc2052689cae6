// Base64url without padding (RFC 4648 section 5), as used by signed tokens. Strict: each sequence
// of bytes has exactly one encoding. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::auth {

// nullopt for other characters, padding, an impossible length, or non-zero unused bits.
std::optional<std::string> DecodeBase64url(std::string_view text);

}  // namespace tutti::auth
