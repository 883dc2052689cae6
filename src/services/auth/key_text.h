// The text of an API key: "tutti-<id>-<secret>", 62 characters.
//
// The id (12 of [A-Za-z0-9]) finds the key and may be shown; the secret is 43 of them, each drawn
// alike by the system's generator, 256 bits in all. The store holds the SHA-256 of the whole text:
// a slow hash protects what people can remember, and nobody guesses 256 bits. Any thread.
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

// A new one. Errors: internal_error, where the system has no randomness.
Result<std::string> MakeKeyText();

// The id within a text of a key's form; nothing for any other text.
std::optional<std::string_view> KeyIdOf(std::string_view text);

Digest DigestOf(std::string_view text);
// In a time that does not depend on what they hold.
bool SameDigest(const Digest& a, const Digest& b);

}  // namespace tutti::auth
