#include "services/auth/key_text.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

namespace tutti::auth {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
static_assert(kLetters.size() == 62);

// Bytes from 248 on are rejected; otherwise the first letters would be more frequent.
Result<std::string> RandomLetters(size_t count) {
  constexpr unsigned kFair = 256 / 62 * 62;
  std::string letters;
  std::array<unsigned char, 64> bytes{};
  while (letters.size() < count) {
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
      return Internal("the system's random generator failed");
    for (const unsigned char byte : bytes) {
      if (byte < kFair && letters.size() < count) letters += kLetters[byte % 62];
    }
  }
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return letters;
}

// No branch depends on a character, so that the time reveals nothing about the text.
bool AreLetters(std::string_view text) {
  bool all = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = static_cast<unsigned char>((byte | 0x20) - 'a') < 26;
    const bool digit = static_cast<unsigned char>(byte - '0') < 10;
    all &= letter | digit;
  }
  return all;
}

}  // namespace

Result<std::string> MakeKeyText() {
  ASSIGN_OR_RETURN(const std::string letters, RandomLetters(kKeyIdChars + kKeySecretChars));
  return std::string(kKeyPrefix) + letters.substr(0, kKeyIdChars) + "-" +
         letters.substr(kKeyIdChars);
}

std::optional<std::string_view> KeyIdOf(std::string_view text) {
  if (text.size() != kKeyChars || !text.starts_with(kKeyPrefix)) return std::nullopt;
  const std::string_view id = text.substr(kKeyPrefix.size(), kKeyIdChars);
  const std::string_view rest = text.substr(kKeyPrefix.size() + kKeyIdChars);
  if (!AreLetters(id) || rest[0] != '-' || !AreLetters(rest.substr(1))) return std::nullopt;
  return id;
}

Digest DigestOf(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool SameDigest(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tutti::auth
