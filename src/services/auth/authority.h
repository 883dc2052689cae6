// Authority: who a caller is, by what they show. One for all doors of a process.
//
// Any thread; nothing here waits for a disk or a hash but what says so. What it was made from must
// outlive it, and callbacks may come until its destructor returns. Times are seconds since 1970.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/auth/accounts.h"
#include "services/auth/jwt.h"
#include "services/auth/password_hash.h"
#include "services/auth/password_pool.h"
#include "services/auth/principal.h"

namespace tutti::auth {

// What a client certificate says of its holder, once its authority was found to be a trusted one.
struct CertifiedName {
  std::string name;
  int64_t expires_s = 0;  // from which on it says nothing any more
};

class Authority {
 public:
  struct Options {
    // The one of --api-key-file, beside those of the store: a key that may do all but administer.
    std::string configured_key;
    std::vector<JwtIssuer> issuers;  // each of another name
    // Client certificates are asked for: whoever's name one has is known by it.
    bool client_certificates = false;
    HashParameters hash;
    PasswordPool::Options pool;
  };
  // Errors: invalid_value (an issuer).
  static Result<std::unique_ptr<Authority>> Create(Accounts* accounts, const Options& options);

  // Who shows this after "Bearer ": an API key or a signed token. In a time that tells nothing of
  // what was wrong with a key. Errors: invalid_api_key, key_revoked (401).
  Result<PrincipalRef> FromBearer(std::string_view text, int64_t now_s) const;

  // Whose password this is. `done` is called once, from a thread of the pool or at once from this
  // one. An unknown user costs the same work as a wrong password. Errors: invalid_api_key (whatever
  // was wrong), overloaded (too many wait), draining, internal_error.
  using Done = std::function<void(Result<PrincipalRef>)>;
  void FromPassword(std::string name, std::string password, Done done);

  // The user whom a certificate names: the same one as with a password. Errors: invalid_api_key, in
  // the same words for who is unknown, disabled or late, and where no certificates are asked for.
  Result<PrincipalRef> FromCertificate(const CertifiedName& shown, int64_t now_s) const;

  // Whether a caller without credentials is served (as OpenPrincipal()).
  bool IsOpen(bool loopback) const;

  // Of a connection or session that lasts: whether its principal is still one. Errors: as
  // FromBearer.
  Status StillValid(const Principal& who, int64_t now_s) const;

  // Who has that credential now (CredentialOf), where no token was it: what they were given may
  // have changed since. Errors: as FromBearer.
  Result<PrincipalRef> FromCredential(std::string_view credential, int64_t now_s) const;
  // Of a request that was begun with it: tokens end by themselves. Errors: as FromBearer.
  Status StillValid(std::string_view credential, int64_t now_s) const;

  // Waits for the pool: for tools and the control socket. Errors: invalid_value (not fit for a
  // password), overloaded.
  Result<std::string> HashNewPassword(const std::string& password);

  Accounts& accounts() const { return *accounts_; }

  // What passwords cost now: counted where they are hashed, whoever asked for it.
  struct HashCounts {
    size_t threads = 0;        // of the pool
    size_t waiting = 0;        // for one of them
    int64_t running = 0;       // hashes that are being computed
    int64_t most_running = 0;  // at once, since the start
    int64_t computed = 0, refused = 0;
  };
  HashCounts hash_counts() const;

 private:
  Authority(Accounts* accounts, const Options& options, std::vector<JwtVerifier> verifiers);
  // One hash, for as long as it lives.
  class Hashing {
   public:
    explicit Hashing(Authority& authority);
    ~Hashing();

   private:
    Authority& authority_;
  };
  // On a thread of the pool.
  Result<PrincipalRef> CheckPassword(const std::string& name, const std::string& password);

  Accounts* const accounts_;
  const HashParameters hash_;
  const std::vector<JwtVerifier> verifiers_;
  const bool client_certificates_;
  const std::string hash_of_nobody_;  // of the same cost as anybody's
  const PrincipalRef configured_;     // null: there is no such key
  const Digest configured_digest_;
  std::atomic<int64_t> hashing_{0}, most_hashing_{0}, hashed_{0}, refused_{0};
  PasswordPool pool_;  // last: its threads end before what they use
};

}  // namespace tutti::auth
