// Authenticator: authenticates callers by API key, signed token, password or client certificate.
// All servers of a process share one.
//
// Any thread; no call blocks for disk or hashing unless its comment says so. The Accounts must
// outlive it; callbacks may run until its destructor returns. Times are seconds since 1970.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "services/auth/accounts.h"
#include "services/auth/grant.h"
#include "services/auth/jwt.h"
#include "services/auth/password.h"
#include "services/auth/principal.h"

namespace tutti::auth {

// Name and expiry of a client certificate that a trusted authority has signed.
struct CertifiedName {
  std::string name;
  int64_t expires_s = 0;  // unix seconds; not valid from then on
};

class Authenticator {
 public:
  struct Options {
    // The key of --api-key-file, in addition to keys in the store. It has all scopes except admin.
    std::string configured_key;
    std::vector<JwtIssuer> issuers;  // each of another name
    // True if TLS requests client certificates; their names then identify users.
    bool client_certificates = false;
    HashParameters hash;
    PasswordPool::Options pool;
  };
  // Errors: invalid_value (an issuer).
  static Result<std::unique_ptr<Authenticator>> Create(Accounts* accounts, const Options& options);

  // Replaces what the configuration says: the configured key, the issuers, and whether client
  // certificates count. `hash` and `pool` of the options are not used. A caller with an unchanged
  // key stays valid; callers with the old key, and users of certificates that no longer count, are
  // refused from now on. On an error nothing changes. Errors: as Create().
  Status Configure(const Options& options);

  // Principal of the text after "Bearer ": an API key or a signed token. The time taken does not
  // depend on what is wrong with a key. Errors: invalid_api_key, key_revoked (401).
  Result<PrincipalRef> FromBearer(std::string_view text, int64_t now_s) const;

  // Authenticates a user by password. `done` is called once, from a thread of the pool or at once
  // from the calling thread. An unknown user takes as much work as a wrong password. Errors:
  // invalid_api_key (for any mismatch), overloaded (too many logins wait), draining,
  // internal_error.
  using Done = std::function<void(Result<PrincipalRef>)>;
  void FromPassword(std::string name, std::string password, Done done);

  // Principal of the user that a certificate names; equal to that of a password login. Errors:
  // invalid_api_key, with one message for unknown and disabled users, expired certificates, and
  // servers that do not request certificates.
  Result<PrincipalRef> FromCertificate(const CertifiedName& shown, int64_t now_s) const;

  // Whether a caller without credentials is served (as OpenPrincipal()).
  bool IsOpen(bool loopback) const;
  // The same after Configure() with these options.
  bool IsOpenWith(const Options& options, bool loopback) const;
  // Whether nobody can be authenticated: all there is are keys that ended and disabled users.
  bool IsShut(int64_t now_s) const;

  // OK if the principal of a long-lived connection or session is still valid. Errors: as
  // FromBearer.
  Status StillValid(const Principal& who, int64_t now_s) const;

  // Current principal of a credential (CredentialOf) that is not a token; its grant may have
  // changed since the credential was recorded. Errors: as FromBearer.
  Result<PrincipalRef> FromCredential(std::string_view credential, int64_t now_s) const;
  // OK if the credential of a running request is still valid; always OK for signed tokens, which
  // cannot be revoked. Errors: as FromBearer.
  Status StillValid(std::string_view credential, int64_t now_s) const;

  // Blocks for the pool; for tools and the control socket. Errors: invalid_value (unsuitable as a
  // password), overloaded.
  Result<std::string> HashNewPassword(const std::string& password);

  Accounts& accounts() const { return *accounts_; }

  // Load of password hashing, over logins and password changes together.
  struct HashCounts {
    size_t threads = 0;       // of the pool
    size_t waiting = 0;       // for one of them
    int64_t running = 0;      // hashes that are being computed
    int64_t max_running = 0;  // at once, since the start
    int64_t computed = 0, refused = 0;
  };
  HashCounts hash_counts() const;

 private:
  // What Configure() replaces. Immutable.
  struct Configured {
    PrincipalRef key;  // null: there is no such key
    Digest key_digest;
    std::vector<JwtVerifier> verifiers;
    bool client_certificates = false;
  };
  static Result<std::shared_ptr<const Configured>> Read(const Options& options);

  Authenticator(Accounts* accounts, const Options& options,
                std::shared_ptr<const Configured> configured);
  std::shared_ptr<const Configured> configured() const;
  // Counts one running hash for its lifetime.
  class Hashing {
   public:
    explicit Hashing(Authenticator& authority);
    ~Hashing();

   private:
    Authenticator& authority_;
  };
  // On a thread of the pool.
  Result<PrincipalRef> CheckPassword(const std::string& name, const std::string& password);

  Accounts* const accounts_;
  const HashParameters hash_;
  const std::string hash_of_nobody_;  // checked for unknown users, so that they cost the same
  mutable Mutex mutex_;
  std::shared_ptr<const Configured> configured_ GUARDED_BY(mutex_);
  std::atomic<int64_t> hashing_{0}, max_hashing_{0}, hashed_{0}, refused_{0};
  PasswordPool pool_;  // last: its threads end before what they use
};

// --- a request's caller, by its "authorization" header (HTTP and gRPC) or by the client
// certificate of the connection; any thread ---

// The text after "Bearer " (case-insensitive) in the only value of the field. Empty if the field is
// missing, has another scheme, or has several values.
std::string_view BearerOf(std::span<const std::string_view> authorization);

struct PresentedCredentials {
  std::span<const std::string_view> authorization = {};  // all values of the field
  const CertifiedName* certificate = nullptr;            // null where the connection has none
};

// Claimed identity of a refused request, for the log: "key:ID" for a text in the form of a key,
// "certificate:NAME", else "-". Contains no secret.
std::string ClaimOf(const PresentedCredentials& shown);

// Authenticates a request. If the request has an authorization header, only the header counts, even
// if it is wrong; otherwise the client certificate does. On an open server every request gets
// OpenPrincipal(), because many clients always send some key. `now_s`: seconds since 1970. Errors:
// as Authenticator::FromBearer and FromCertificate.
Result<PrincipalRef> ResolveCaller(const Authenticator& authority, bool loopback,
                                   const PresentedCredentials& shown, int64_t now_s);

// OK if `who` has one of the scopes of `rule`. On an open server every local client counts as
// operator; routes that must be closed even to them need a further check. Errors:
// insufficient_scope.
Status MayUse(const Principal& who, RouteClasses rule);

}  // namespace tutti::auth
