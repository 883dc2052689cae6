// The text of an API key: "tutti-<id>-<secret>", 62 characters.
//
// The id (12 of [A-Za-z0-9]) is public and identifies the key. The secret has 43 of these
// characters, drawn uniformly by the system's random generator: 256 bits. The store holds the
// SHA-256 of the whole text; a slow hash is only needed for secrets that people choose. Any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::auth {

using Digest = std::array<unsigned char, 32>;

inline constexpr std::string_view kKeyPrefix = "tutti-";
inline constexpr size_t kKeyIdChars = 12, kKeySecretChars = 43;
inline constexpr size_t kKeyChars = kKeyPrefix.size() + kKeyIdChars + 1 + kKeySecretChars;

// Makes a new key. Errors: internal_error (the system's random generator failed).
Result<std::string> MakeKeyText();

// Id in a text that has the form of a key; nullopt for any other text.
std::optional<std::string_view> KeyIdOf(std::string_view text);

Digest DigestOf(std::string_view text);
// Constant-time comparison.
bool SameDigest(const Digest& a, const Digest& b);

}  // namespace tutti::auth
