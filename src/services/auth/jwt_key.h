// JwtKey: verification key of an issuer, bound to one algorithm.
//
// The algorithm comes from the configuration, never from the token, which prevents attacks that
// present a public key as a shared secret or use "none". Immutable; any thread.
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
  // `text`: a public key in PEM, or the bytes of an HS256 secret. Errors: invalid_value (malformed
  // or other type of key; RSA below 2048 bits; secret below 32 bytes).
  static Result<JwtKey> Create(JwtAlgorithm algorithm, std::string_view text);

  // Whether `signature` (raw bytes) is a valid signature of `message` under this key.
  bool Verifies(std::string_view message, std::string_view signature) const;

 private:
  JwtKey(JwtAlgorithm algorithm, std::string secret, std::shared_ptr<evp_pkey_st> key)
      : algorithm_(algorithm), secret_(std::move(secret)), key_(std::move(key)) {}

  JwtAlgorithm algorithm_;
  std::string secret_;                // of HS256
  std::shared_ptr<evp_pkey_st> key_;  // of the others
};

}  // namespace tutti::auth
