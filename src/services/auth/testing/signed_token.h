// Tokens and the keys that sign them, for tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "services/auth/jwt.h"

struct evp_pkey_st;

namespace tutti::auth {

std::string Base64url(std::string_view bytes);
std::string HmacOf(std::string_view secret, std::string_view message);  // SHA-256

// A new key of an issuer for each object.
class SigningKey {
 public:
  explicit SigningKey(JwtAlgorithm algorithm, int rsa_bits = 2048);

  // Key text for the configuration of a verifier: PEM, or the secret.
  const std::string& public_text() const { return public_text_; }
  // The signature in the form of a token; for ES256, the bytes of r and s.
  std::string Sign(std::string_view message) const;
  // `header` and `claims` as JSON texts; three parts.
  std::string Token(std::string_view header, std::string_view claims) const;
  // With the header that fits.
  std::string Token(std::string_view claims) const;

 private:
  JwtAlgorithm algorithm_;
  std::shared_ptr<evp_pkey_st> key_;
  std::string public_text_;
};

}  // namespace tutti::auth
