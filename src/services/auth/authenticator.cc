#include "services/auth/authenticator.h"

#include <openssl/crypto.h>

#include <future>
#include <utility>

#include "base/ascii.h"
#include "services/auth/key_text.h"

namespace tutti::auth {
namespace {

Status WrongPassword() {
  return {StatusCode::kUnauthenticated, "invalid_api_key", "the user name or password is wrong"};
}

PrincipalRef ConfiguredPrincipal(const std::string& key) {
  if (key.empty()) return nullptr;
  return std::make_shared<const Principal>(Principal{.kind = PrincipalKind::kKey,
                                                     .id = "configured",
                                                     .name = "configured",
                                                     .grant = {},
                                                     .expires_s = {}});
}

bool HasExpired(const std::optional<int64_t>& expires_s, int64_t now_s) {
  return expires_s.has_value() && *expires_s <= now_s;
}

}  // namespace

Result<std::unique_ptr<Authenticator>> Authenticator::Create(Accounts* accounts,
                                                             const Options& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Configured> configured, Read(options));
  return std::unique_ptr<Authenticator>(
      new Authenticator(accounts, options, std::move(configured)));
}

Result<std::shared_ptr<const Authenticator::Configured>> Authenticator::Read(
    const Options& options) {
  auto configured = std::make_shared<Configured>();
  for (const JwtIssuer& issuer : options.issuers) {
    ASSIGN_OR_RETURN(JwtVerifier verifier, JwtVerifier::Create(issuer));
    configured->verifiers.push_back(std::move(verifier));
  }
  configured->client_certificates = options.client_certificates;
  configured->key = ConfiguredPrincipal(options.configured_key);
  configured->key_digest = DigestOf(options.configured_key);
  return std::shared_ptr<const Configured>(std::move(configured));
}

Authenticator::Authenticator(Accounts* accounts, const Options& options,
                             std::shared_ptr<const Configured> configured)
    : accounts_(accounts),
      hash_(options.hash),
      hash_of_nobody_(HashOfNobody(options.hash)),
      configured_(std::move(configured)),
      pool_(options.pool) {}

Status Authenticator::Configure(const Options& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Configured> read, Read(options));
  auto next = std::make_shared<Configured>(*read);
  const MutexLock lock(mutex_);
  // StillValid() recognises the key's callers by their principal.
  if (next->key != nullptr && configured_->key != nullptr &&
      SameDigest(next->key_digest, configured_->key_digest))
    next->key = configured_->key;
  configured_ = std::move(next);
  return OkStatus();
}

std::shared_ptr<const Authenticator::Configured> Authenticator::configured() const {
  const MutexLock lock(mutex_);
  return configured_;
}

Authenticator::Hashing::Hashing(Authenticator& authority) : authority_(authority) {
  const int64_t running = ++authority_.hashing_;
  int64_t most = authority_.max_hashing_.load();
  while (running > most && !authority_.max_hashing_.compare_exchange_weak(most, running)) {
  }
}

Authenticator::Hashing::~Hashing() {
  --authority_.hashing_;
  ++authority_.hashed_;
}

Authenticator::HashCounts Authenticator::hash_counts() const {
  return {.threads = pool_.threads(),
          .waiting = pool_.waiting(),
          .running = hashing_.load(),
          .max_running = max_hashing_.load(),
          .computed = hashed_.load(),
          .refused = refused_.load()};
}

Result<PrincipalRef> Authenticator::FromBearer(std::string_view text, int64_t now_s) const {
  if (text.empty() || text.size() > kMaxJwtBytes) return NotAuthenticated();
  const std::shared_ptr<const Configured> configured = this->configured();
  if (configured->key != nullptr && SameDigest(DigestOf(text), configured->key_digest))
    return configured->key;
  if (!configured->verifiers.empty() && LooksLikeJwt(text))
    return VerifyJwt(text, configured->verifiers, now_s);
  const SnapshotRef snapshot = accounts_->snapshot();
  ASSIGN_OR_RETURN(const KeyEntry* const key, CheckKey(*snapshot, text, now_s));
  accounts_->NoteUse(*key, now_s);
  return key->principal;
}

void Authenticator::FromPassword(std::string name, std::string password, Done done) {
  if (password.size() > kMaxPasswordBytes || name.size() > kMaxPasswordBytes)
    return done(WrongPassword());
  pool_.Run([this, name = std::move(name), password = std::move(password),
             done = std::move(done)](const Status& start) mutable {
    if (!start.ok()) ++refused_;
    Result<PrincipalRef> who = start.ok() ? CheckPassword(name, password) : start;
    OPENSSL_cleanse(password.data(), password.size());
    done(std::move(who));
  });
}

Result<PrincipalRef> Authenticator::CheckPassword(const std::string& name,
                                                  const std::string& password) {
  // A second time only where the hash was changed while the first was computed: by another login's
  // rehash, or by a new password.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const SnapshotRef before = accounts_->snapshot();
    const UserEntry* const user = before->FindUser(name);
    const std::string& hash = user == nullptr ? hash_of_nobody_ : user->password_hash;
    bool right = false;
    {
      const Hashing counted(*this);
      ASSIGN_OR_RETURN(right, VerifyPassword(password, hash));
    }
    if (!right || user == nullptr) return WrongPassword();
    const SnapshotRef now = accounts_->snapshot();
    const UserEntry* const still = now->FindUser(name);
    if (still == nullptr || !still->enabled) return WrongPassword();
    if (still->password_hash != hash) continue;
    if (NeedsRehash(hash, hash_)) {
      const Hashing counted(*this);
      const Result<std::string> again = HashPassword(password, hash_);
      if (again.ok()) accounts_->Rehash(name, hash, *again);
    }
    return still->principal;
  }
  return WrongPassword();
}

Result<PrincipalRef> Authenticator::FromCertificate(const CertifiedName& shown,
                                                    int64_t now_s) const {
  if (configured()->client_certificates && !HasExpired(shown.expires_s, now_s)) {
    const SnapshotRef snapshot = accounts_->snapshot();
    const UserEntry* const user = snapshot->FindUser(shown.name);
    if (user != nullptr && user->enabled) return user->principal;
  }
  return Status(StatusCode::kUnauthenticated, "invalid_api_key",
                "the client certificate names nobody who may call");
}

bool Authenticator::IsOpen(bool loopback) const {
  const std::shared_ptr<const Configured> configured = this->configured();
  const bool known = configured->key != nullptr || !configured->verifiers.empty() ||
                     configured->client_certificates || !accounts_->snapshot()->empty();
  return IsOpenTo(loopback, known);
}

bool Authenticator::IsOpenWith(const Options& options, bool loopback) const {
  const bool known = !options.configured_key.empty() || !options.issuers.empty() ||
                     options.client_certificates || !accounts_->snapshot()->empty();
  return IsOpenTo(loopback, known);
}

bool Authenticator::IsShut(int64_t now_s) const {
  const std::shared_ptr<const Configured> configured = this->configured();
  if (configured->key != nullptr || !configured->verifiers.empty()) return false;
  const SnapshotRef snapshot = accounts_->snapshot();
  for (const auto& [id, key] : snapshot->keys) {
    if (!key.revoked && !HasExpired(key.principal->expires_s, now_s)) return false;
  }
  for (const auto& [name, user] : snapshot->users) {
    if (user.enabled) return false;
  }
  return !IsOpen(/*loopback=*/true);
}

Status Authenticator::StillValid(const Principal& who, int64_t now_s) const {
  if (HasExpired(who.expires_s, now_s)) return NotAuthenticated();
  const SnapshotRef snapshot = accounts_->snapshot();
  switch (who.kind) {
    case PrincipalKind::kOpen:
      return IsOpen(/*loopback=*/true) ? OkStatus() : NotAuthenticated();
    case PrincipalKind::kKey: {
      if (&who == configured()->key.get()) return OkStatus();
      const KeyEntry* const key = snapshot->FindKey(who.id);
      if (key == nullptr) return NotAuthenticated();
      if (key->revoked)
        return {StatusCode::kUnauthenticated, "key_revoked", "this key was revoked"};
      // A rotation gives it an end that it did not have when it was shown.
      return HasExpired(key->principal->expires_s, now_s) ? NotAuthenticated() : OkStatus();
    }
    case PrincipalKind::kUser: {
      const UserEntry* const user = snapshot->FindUser(who.id);
      return user != nullptr && user->enabled ? OkStatus() : NotAuthenticated();
    }
    case PrincipalKind::kToken:
      return OkStatus();  // until it expires
  }
  return NotAuthenticated();
}

Result<PrincipalRef> Authenticator::FromCredential(std::string_view credential,
                                                   int64_t now_s) const {
  const auto behind = [&](std::string_view kind) -> std::optional<std::string_view> {
    if (!credential.starts_with(kind)) return std::nullopt;
    return credential.substr(kind.size());
  };
  PrincipalRef who;
  const SnapshotRef snapshot = accounts_->snapshot();
  if (credential == kOpenCredential) {
    who = OpenPrincipal();
  } else if (const auto id = behind(kKeyCredential)) {
    const KeyEntry* const key = snapshot->FindKey(*id);
    if (key != nullptr) who = key->principal;
    const std::shared_ptr<const Configured> configured = this->configured();
    if (configured->key != nullptr && *id == configured->key->id) who = configured->key;
  } else if (const auto name = behind(kUserCredential)) {
    const UserEntry* const user = snapshot->FindUser(*name);
    if (user != nullptr) who = user->principal;
  }
  if (who == nullptr) return NotAuthenticated();
  RETURN_IF_ERROR(StillValid(*who, now_s));
  return who;
}

Status Authenticator::StillValid(std::string_view credential, int64_t now_s) const {
  if (credential.starts_with(kTokenCredential)) return OkStatus();
  return FromCredential(credential, now_s).status();
}

Result<std::string> Authenticator::HashNewPassword(const std::string& password) {
  RETURN_IF_ERROR(CheckNewPassword(password));
  std::promise<Result<std::string>> hash;
  pool_.Run([&](const Status& start) {
    if (!start.ok()) {
      ++refused_;
      return hash.set_value(start);
    }
    // The running hash is uncounted before the caller gets the result.
    Result<std::string> made = [&] {
      const Hashing counted(*this);
      return HashPassword(password, hash_);
    }();
    hash.set_value(std::move(made));
  });
  return hash.get_future().get();
}

std::string_view BearerOf(std::span<const std::string_view> authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() != 1 ||
      !SameLetters(authorization[0].substr(0, kScheme.size()), kScheme))
    return {};
  return authorization[0].substr(kScheme.size());
}

std::string ClaimOf(const PresentedCredentials& shown) {
  if (shown.authorization.empty())
    return shown.certificate == nullptr ? "-" : "certificate:" + shown.certificate->name;
  const std::optional<std::string_view> id = KeyIdOf(BearerOf(shown.authorization));
  return id.has_value() ? std::string(kKeyCredential) += *id : "-";
}

Result<PrincipalRef> ResolveCaller(const Authenticator& authority, bool loopback,
                                   const PresentedCredentials& shown, int64_t now_s) {
  if (authority.IsOpen(loopback)) return OpenPrincipal();
  if (shown.authorization.empty() && shown.certificate != nullptr)
    return authority.FromCertificate(*shown.certificate, now_s);
  const std::string_view bearer = BearerOf(shown.authorization);
  if (bearer.empty()) return NotAuthenticated();
  return authority.FromBearer(bearer, now_s);
}

Status MayUse(const Principal& who, RouteClasses rule) {
  if (who.kind == PrincipalKind::kOpen) return OkStatus();
  Status refusal;
  for (const RouteClass each : kAllRouteClasses) {
    if (each == RouteClass::kPublic || !rule.Has(each)) continue;
    refusal = Authorize(who, each);
    if (refusal.ok()) return refusal;
  }
  return refusal;
}

}  // namespace tutti::auth
