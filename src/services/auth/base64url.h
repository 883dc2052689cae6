// Base64url without padding (RFC 4648 section 5), as signed tokens use it. Strict: one text for
// each sequence of bytes, so that a token cannot be written in two ways. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::auth {

// Nothing for other characters, padding, an impossible length, and unused bits that are not zero.
std::optional<std::string> DecodeBase64url(std::string_view text);

}  // namespace tutti::auth
