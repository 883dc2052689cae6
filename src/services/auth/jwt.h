// Signed tokens of other issuers (JWT, RFC 7519; JWS compact, RFC 7515), checked here and asking
// nobody. Decided against a library: Debian's libjwt 1.10 has no EdDSA and leaves the choice of
// algorithm to its caller, and what is left of a verifier beside OpenSSL is this file.
//
// Pure functions; any thread. A signature costs up to a tenth of a millisecond.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/auth/jwt_key.h"
#include "services/auth/principal.h"

namespace tutti::auth {

inline constexpr size_t kMostJwtBytes = 8192;
inline constexpr size_t kMostJwtKeys = 4;   // of one issuer, for its rotation
inline constexpr int64_t kJwtLeewayS = 60;  // by which its clock may differ from ours
inline constexpr size_t kMostSubjectBytes = 256;
inline constexpr size_t kMostIssuerBytes = 240;  // with a subject the ledger and limits know it

// An issuer that is trusted, as the configuration has it.
struct JwtIssuer {
  std::string issuer;    // `iss`, to the letter
  std::string audience;  // `aud` is this, or a list that holds it
  JwtAlgorithm algorithm = JwtAlgorithm::kRs256;
  std::vector<std::string> keys;   // 1 to kMostJwtKeys (JwtKey::Create)
  std::string tenant = "default";  // of tokens without `tenant_claim`
  std::string tenant_claim;        // a claim with the tenant's name; empty: none is read
  // A claim with words separated by blanks, or a list of them: "tutti:generate" gives a class of
  // routes, "tutti:model:NAME" narrows to models; other words mean nothing here, and a token that
  // gives no class may use none. Empty: all but admin.
  std::string scope_claim;
};

// An issuer whose configuration makes sense. Immutable; any thread.
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

// Three parts with a dot between them: whatever else it is, no API key.
bool LooksLikeJwt(std::string_view text);

// Whose token this is. Demanded are `alg` (the issuer's), `iss`, `aud`, `sub` and `exp`; `nbf` is
// kept where there is one; a header with `crit` is refused, since nothing critical is understood;
// keys that a token brings along are not looked at. Errors: invalid_api_key, with one message for
// all that is wrong but time.
Result<PrincipalRef> VerifyJwt(std::string_view token, std::span<const JwtVerifier> verifiers,
                               int64_t now_s);

}  // namespace tutti::auth
