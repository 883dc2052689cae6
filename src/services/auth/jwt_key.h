// JwtKey: a key with which an issuer's signatures are checked, by one algorithm and no other.
//
// The algorithm is the configuration's, never the token's: so nobody gets a public key taken for a
// shared secret, or "none" for a signature. Immutable; any thread.
// Sources: RFC 7518 sections 3.2 to 3.4, RFC 8037 section 3.1.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct evp_pkey_st;

namespace tutti::auth {

enum class JwtAlgorithm : uint8_t {
  kHs256,  // a shared secret
  kRs256,  // RSA, PKCS #1 v1.5
  kEs256,  // ECDSA over P-256
  kEdDsa,  // Ed25519
};

std::string_view JwtAlgorithmName(JwtAlgorithm algorithm);  // "RS256", as tokens write it
std::optional<JwtAlgorithm> FindJwtAlgorithm(std::string_view name);

class JwtKey {
 public:
  // `text`: a public key in PEM, or of HS256 the secret's bytes. Errors: invalid_value (not such a
  // key; RSA below 2048 bits, a secret below 32 bytes).
  static Result<JwtKey> Create(JwtAlgorithm algorithm, std::string_view text);

  // Whether `signature`, as bytes, is this key's over `message`.
  bool Verifies(std::string_view message, std::string_view signature) const;

 private:
  JwtKey(JwtAlgorithm algorithm, std::string secret, std::shared_ptr<evp_pkey_st> key)
      : algorithm_(algorithm), secret_(std::move(secret)), key_(std::move(key)) {}

  JwtAlgorithm algorithm_;
  std::string secret_;                // of HS256
  std::shared_ptr<evp_pkey_st> key_;  // of the others
};

}  // namespace tutti::auth
