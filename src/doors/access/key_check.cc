#include "doors/access/key_check.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <string>

namespace tutti::access {
namespace {

std::array<unsigned char, 32> Hash(std::string_view text) {
  std::array<unsigned char, 32> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool SameLetters(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

}  // namespace

KeyCheck::KeyCheck(std::string_view key) : has_key_(!key.empty()), digest_(Hash(key)) {}

bool KeyCheck::Accepts(std::span<const std::string_view> authorization) const {
  if (!has_key_) return true;
  std::string_view key;
  if (authorization.size() == 1 && authorization[0].size() > 7 &&
      SameLetters(authorization[0].substr(0, 7), "bearer ")) {
    key = authorization[0].substr(7);
  }
  const auto digest = Hash(key);
  return CRYPTO_memcmp(digest.data(), digest_.data(), digest.size()) == 0 && !key.empty();
}

Status KeyNeeded(std::string_view field) {
  return Status(StatusCode::kUnauthenticated, "invalid_api_key",
                "a valid key is needed: " + std::string(field) + ": Bearer <key>");
}

}  // namespace tutti::access
