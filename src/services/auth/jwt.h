// Offline verification of signed tokens of other issuers (JWT, RFC 7519; JWS compact, RFC 7515). No
// JWT library is used: Debian's libjwt 1.10 has no EdDSA and leaves the choice of algorithm to its
// caller, and OpenSSL already does everything except what is in this file.
//
// Pure functions; any thread. A signature costs up to a tenth of a millisecond.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/auth/principal.h"

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

// JwtKey: verification key of an issuer, bound to one algorithm.
//
// The algorithm comes from the configuration, never from the token, which prevents attacks that
// present a public key as a shared secret or use "none". Immutable; any thread.
// Sources: RFC 7518 sections 3.2 to 3.4, RFC 8037 section 3.1.
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

// Base64url without padding (RFC 4648 section 5), as used by signed tokens. Strict: each sequence
// of bytes has exactly one encoding. nullopt for other characters, padding, an impossible length,
// or non-zero unused bits.
std::optional<std::string> DecodeBase64url(std::string_view text);

inline constexpr size_t kMaxJwtBytes = 8192;
inline constexpr size_t kMaxJwtKeys = 4;    // of one issuer, for its rotation
inline constexpr int64_t kJwtLeewayS = 60;  // tolerated clock difference to the issuer
inline constexpr size_t kMaxSubjectBytes = 256;
inline constexpr size_t kMaxIssuerBytes = 240;  // with a subject the ledger and limits know it

// Configuration of a trusted issuer.
struct JwtIssuer {
  std::string issuer;    // `iss`, to the letter
  std::string audience;  // `aud` is this, or a list that holds it
  JwtAlgorithm algorithm = JwtAlgorithm::kRs256;
  std::vector<std::string> keys;   // 1 to kMaxJwtKeys (JwtKey::Create)
  std::string tenant = "default";  // of tokens without `tenant_claim`
  std::string tenant_claim;        // a claim with the tenant's name; empty: none is read
  // Name of a claim with scope words, separated by spaces or as a list. "tutti:generate" permits a
  // class of routes, "tutti:model:NAME" restricts to models; other words are ignored. A token
  // without a route class may use no route. Empty: tokens get all scopes except admin.
  std::string scope_claim;
};

// An issuer whose configuration has been validated. Immutable; any thread.
class JwtVerifier {
 public:
  // Errors: invalid_value.
  static Result<JwtVerifier> Create(const JwtIssuer& issuer);

  const JwtIssuer& issuer() const { return issuer_; }
  std::span<const JwtKey> keys() const { return keys_; }

 private:
  JwtVerifier(JwtIssuer issuer, std::vector<JwtKey> keys)
      : issuer_(std::move(issuer)), keys_(std::move(keys)) {}

  JwtIssuer issuer_;
  std::vector<JwtKey> keys_;
};

// True for three parts separated by dots, which no API key has.
bool LooksLikeJwt(std::string_view text);

// Verifies a token and returns its principal. Required: `alg` (the issuer's), `iss`, `aud`, `sub`
// and `exp`; `nbf` is checked if present. A header with `crit` is refused, because no critical
// extension is supported; keys in the token are ignored. Errors: invalid_api_key, with one message
// for all faults except time.
Result<PrincipalRef> VerifyJwt(std::string_view token, std::span<const JwtVerifier> verifiers,
                               int64_t now_s);

}  // namespace tutti::auth
