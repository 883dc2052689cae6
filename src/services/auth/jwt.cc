#include "services/auth/jwt.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "protocol/json/json.h"

namespace tutti::auth {
namespace {

using protocol::Json;
using protocol::JsonDocument;
using protocol::JsonObject;

constexpr size_t kLeastSecretBytes = 32, kMaxKeyBytes = 16384;
constexpr int kLeastRsaBits = 2048, kMaxRsaBits = 8192;

constexpr std::array<std::pair<JwtAlgorithm, std::string_view>, 4> kNames = {
    {{JwtAlgorithm::kHs256, "HS256"},
     {JwtAlgorithm::kRs256, "RS256"},
     {JwtAlgorithm::kEs256, "ES256"},
     {JwtAlgorithm::kEdDsa, "EdDSA"}}};

Status Bad(JwtAlgorithm algorithm, std::string_view why) {
  ERR_clear_error();
  return InvalidArgument(
      "invalid_value",
      "the key for " + std::string(JwtAlgorithmName(algorithm)) + " " + std::string(why));
}

// Requirement for the public key of an algorithm, as the second half of an error message.
std::string_view KeyRequirement(JwtAlgorithm algorithm) {
  if (algorithm == JwtAlgorithm::kRs256) return "must be an RSA key of 2048 to 8192 bits";
  if (algorithm == JwtAlgorithm::kEs256) return "must be a key on the curve P-256";
  return "must be an Ed25519 key";
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool FitsAlgorithm(JwtAlgorithm algorithm, EVP_PKEY* key) {
  switch (algorithm) {
    case JwtAlgorithm::kHs256:
      return false;
    case JwtAlgorithm::kRs256:
      return EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) >= kLeastRsaBits &&
             EVP_PKEY_get_bits(key) <= kMaxRsaBits;
    case JwtAlgorithm::kEs256: {
      std::array<char, 64> curve{};
      return EVP_PKEY_is_a(key, "EC") == 1 &&
             EVP_PKEY_get_group_name(key, curve.data(), curve.size(), nullptr) == 1 &&
             std::string_view(curve.data()) == SN_X9_62_prime256v1;
    }
    case JwtAlgorithm::kEdDsa:
      return EVP_PKEY_is_a(key, "ED25519") == 1;
  }
  return false;
}

// A token has r and s as 32 bytes each; OpenSSL takes them as a DER sequence.
std::string EcdsaAsDer(std::string_view signature) {
  if (signature.size() != 64) return "";
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> pair(ECDSA_SIG_new(),
                                                                   &ECDSA_SIG_free);
  BIGNUM* const r = BN_bin2bn(Bytes(signature), 32, nullptr);
  BIGNUM* const s = BN_bin2bn(Bytes(signature.substr(32)), 32, nullptr);
  if (pair == nullptr || ECDSA_SIG_set0(pair.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return "";
  }
  std::string der(static_cast<size_t>(std::max(i2d_ECDSA_SIG(pair.get(), nullptr), 0)), '\0');
  auto* out = reinterpret_cast<unsigned char*>(der.data());
  return i2d_ECDSA_SIG(pair.get(), &out) > 0 ? der : "";
}

bool VerifiesHmac(const std::string& secret, std::string_view message, std::string_view signature) {
  std::array<unsigned char, 32> own{};
  unsigned size = 0;
  if (signature.size() != own.size() ||
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), Bytes(message),
           message.size(), own.data(), &size) == nullptr)
    return false;
  return CRYPTO_memcmp(own.data(), signature.data(), own.size()) == 0;
}

// -1: not of the alphabet.
int ValueOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-') return 62;
  return c == '_' ? 63 : -1;
}

constexpr size_t kMaxJsonValues = 1024;
constexpr std::string_view kScopePrefix = "tutti:", kModelPrefix = "tutti:model:";

Status BadIssuer(std::string message) {
  return InvalidArgument("invalid_value", "a token's issuer " + std::move(message));
}

Status BadToken(std::string message = "the token is not valid here") {
  return {StatusCode::kUnauthenticated, "invalid_api_key", std::move(message)};
}

// A token's parts, as they were written.
struct Parts {
  std::string_view header, payload, signature;
  std::string_view signed_text;  // header, dot, payload
};

std::optional<Parts> Split(std::string_view token) {
  const size_t first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos)
    return std::nullopt;
  return Parts{token.substr(0, first), token.substr(first + 1, second - first - 1),
               token.substr(second + 1), token.substr(0, second)};
}

std::optional<JsonDocument> ObjectOf(std::string_view part) {
  const std::optional<std::string> text = DecodeBase64url(part);
  if (!text.has_value()) return std::nullopt;
  Result<JsonDocument> document = protocol::ParseJson(*text, kMaxJsonValues);
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  return *std::move(document);
}

std::optional<std::string_view> TextOf(const JsonObject& object, std::string_view name) {
  const Json* const value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string_view(value->get_string());
}

// Seconds since 1970, without the fraction; -1 for values outside of 1970 to 6000.
int64_t TimeOf(const Json& value) {
  double seconds = -1;
  if (value.is_int64()) seconds = static_cast<double>(value.get_int64());
  if (value.is_double()) seconds = value.get_double();
  if (!(seconds >= 0) || seconds > 1.3e11) return -1;
  return static_cast<int64_t>(std::floor(seconds));
}

bool IsFor(const JsonObject& claims, std::string_view audience) {
  const Json* const aud = claims.if_contains("aud");
  if (aud == nullptr) return false;
  if (aud->is_string()) return std::string_view(aud->get_string()) == audience;
  if (!aud->is_array()) return false;
  return std::any_of(aud->get_array().begin(), aud->get_array().end(), [&](const Json& each) {
    return each.is_string() && std::string_view(each.get_string()) == audience;
  });
}

// False where a model cannot be kept: the token would narrow to others than it names.
bool AddScope(std::string_view word, Scopes* scopes) {
  if (word.starts_with(kModelPrefix)) {
    const std::string_view model = word.substr(kModelPrefix.size());
    if (model.empty() || scopes->models.size() >= kMaxModelsOfAScope) return false;
    scopes->models.emplace_back(model);
  } else if (word.starts_with(kScopePrefix)) {
    const auto route = FindRouteClass(word.substr(kScopePrefix.size()));
    if (route.has_value()) scopes->routes.Add(*route);
  }
  return true;
}

std::optional<Scopes> ScopesOf(const JsonObject& claims, const std::string& claim) {
  if (claim.empty()) return Scopes();
  Scopes scopes{.routes = {}, .models = {}};
  const Json* const value = claims.if_contains(claim);
  if (value == nullptr) return scopes;
  if (value->is_array()) {
    for (const Json& each : value->get_array()) {
      if (!each.is_string() || !AddScope(std::string_view(each.get_string()), &scopes))
        return std::nullopt;
    }
    return scopes;
  }
  if (!value->is_string()) return std::nullopt;
  std::string_view rest = value->get_string();
  while (!rest.empty()) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    if (!AddScope(rest.substr(0, blank), &scopes)) return std::nullopt;
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return scopes;
}

std::optional<std::string> TenantOf(const JsonObject& claims, const JwtIssuer& issuer) {
  if (issuer.tenant_claim.empty() || claims.if_contains(issuer.tenant_claim) == nullptr)
    return issuer.tenant;
  const auto tenant = TextOf(claims, issuer.tenant_claim);
  if (!tenant.has_value() || !IsName(*tenant)) return std::nullopt;
  return std::string(*tenant);
}

bool IsSubject(std::string_view text) {
  return !text.empty() && text.size() <= kMaxSubjectBytes && IsValidUtf8(text) &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Checks claims whose signature has been verified, and returns their principal.
Result<PrincipalRef> PrincipalOf(const JsonObject& claims, const JwtIssuer& issuer, int64_t now_s) {
  const auto subject = TextOf(claims, "sub");
  const Json* const exp = claims.if_contains("exp");
  const Json* const nbf = claims.if_contains("nbf");
  const int64_t expires_s = exp == nullptr ? -1 : TimeOf(*exp);
  const int64_t begins_s = nbf == nullptr ? 0 : TimeOf(*nbf);
  auto tenant = TenantOf(claims, issuer);
  auto scopes = ScopesOf(claims, issuer.scope_claim);
  if (!IsFor(claims, issuer.audience) || !subject.has_value() || !IsSubject(*subject) ||
      expires_s < 0 || begins_s < 0 || !tenant.has_value() || !scopes.has_value())
    return BadToken();
  if (expires_s + kJwtLeewayS <= now_s) return BadToken("the token has expired");
  if (begins_s - kJwtLeewayS > now_s) return BadToken("the token is not valid yet");
  return PrincipalRef(std::make_shared<const Principal>(
      Principal{.kind = PrincipalKind::kToken,
                .id = issuer.issuer + "|" + std::string(*subject),
                .name = std::string(*subject),
                .grant = {*std::move(tenant), *std::move(scopes), {}},
                .expires_s = expires_s + kJwtLeewayS}));
}

}  // namespace

std::string_view JwtAlgorithmName(JwtAlgorithm algorithm) {
  for (const auto& [each, name] : kNames) {
    if (each == algorithm) return name;
  }
  return {};
}

std::optional<JwtAlgorithm> FindJwtAlgorithm(std::string_view name) {
  for (const auto& [algorithm, each] : kNames) {
    if (each == name) return algorithm;
  }
  return std::nullopt;
}

Result<JwtKey> JwtKey::Create(JwtAlgorithm algorithm, std::string_view text) {
  if (text.size() > kMaxKeyBytes) return Bad(algorithm, "is longer than 16 KiB");
  const bool pem = text.find("-----BEGIN") != std::string_view::npos;
  if (algorithm == JwtAlgorithm::kHs256) {
    if (pem) return Bad(algorithm, "must be a secret, not a PEM file");
    if (text.size() < kLeastSecretBytes) return Bad(algorithm, "must have 32 bytes or more");
    return JwtKey(algorithm, std::string(text), nullptr);
  }
  if (!pem) return Bad(algorithm, "must be a public key in PEM");
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
  const std::shared_ptr<EVP_PKEY> key(
      bio == nullptr ? nullptr : PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr),
      &EVP_PKEY_free);
  if (key == nullptr) return Bad(algorithm, "is not a public key in PEM");
  if (!FitsAlgorithm(algorithm, key.get())) return Bad(algorithm, KeyRequirement(algorithm));
  return JwtKey(algorithm, "", key);
}

bool JwtKey::Verifies(std::string_view message, std::string_view signature) const {
  if (algorithm_ == JwtAlgorithm::kHs256) return VerifiesHmac(secret_, message, signature);
  std::string der;
  if (algorithm_ == JwtAlgorithm::kEs256) {
    der = EcdsaAsDer(signature);
    if (der.empty()) return false;
    signature = der;
  }
  const EVP_MD* const digest = algorithm_ == JwtAlgorithm::kEdDsa ? nullptr : EVP_sha256();
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  const bool right =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(message),
                       message.size()) == 1;
  ERR_clear_error();  // a wrong signature is no error of this thread's next TLS call
  return right;
}

std::optional<std::string> DecodeBase64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;  // bits that form no byte yet
  for (const char c : text) {
    const int value = ValueOf(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xFF);
  }
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

Result<JwtVerifier> JwtVerifier::Create(const JwtIssuer& issuer) {
  if (issuer.issuer.empty() || issuer.audience.empty())
    return BadIssuer("needs the claims iss and aud to be named");
  if (issuer.issuer.size() > kMaxIssuerBytes)
    return BadIssuer("has at most " + std::to_string(kMaxIssuerBytes) + " bytes");
  RETURN_IF_ERROR(CheckName(issuer.tenant, "tenant"));
  if (issuer.keys.empty() || issuer.keys.size() > kMaxJwtKeys)
    return BadIssuer("has 1 to " + std::to_string(kMaxJwtKeys) + " keys");
  std::vector<JwtKey> keys;
  for (const std::string& text : issuer.keys) {
    ASSIGN_OR_RETURN(JwtKey key, JwtKey::Create(issuer.algorithm, text));
    keys.push_back(std::move(key));
  }
  JwtIssuer kept = issuer;
  kept.keys.clear();
  return JwtVerifier(std::move(kept), std::move(keys));
}

bool LooksLikeJwt(std::string_view text) { return Split(text).has_value(); }

Result<PrincipalRef> VerifyJwt(std::string_view token, std::span<const JwtVerifier> verifiers,
                               int64_t now_s) {
  if (token.size() > kMaxJwtBytes) return BadToken();
  const std::optional<Parts> parts = Split(token);
  if (!parts.has_value()) return BadToken();
  const std::optional<JsonDocument> header = ObjectOf(parts->header);
  const std::optional<JsonDocument> payload = ObjectOf(parts->payload);
  const std::optional<std::string> signature = DecodeBase64url(parts->signature);
  if (!header.has_value() || !payload.has_value() || !signature.has_value()) return BadToken();
  const JsonObject& claims = payload->root().get_object();
  // The claimed issuer, which is not verified yet.
  const auto issuer = TextOf(claims, "iss");
  const auto verifier =
      std::find_if(verifiers.begin(), verifiers.end(), [&](const JwtVerifier& each) {
        return issuer.has_value() && each.issuer().issuer == *issuer;
      });
  if (verifier == verifiers.end()) return BadToken();
  const JsonObject& head = header->root().get_object();
  const auto algorithm = TextOf(head, "alg");
  if (!algorithm.has_value() || *algorithm != JwtAlgorithmName(verifier->issuer().algorithm) ||
      head.contains("crit"))
    return BadToken();
  const bool right =
      std::any_of(verifier->keys().begin(), verifier->keys().end(),
                  [&](const JwtKey& key) { return key.Verifies(parts->signed_text, *signature); });
  if (!right) return BadToken();
  return PrincipalOf(claims, verifier->issuer(), now_s);
}

}  // namespace tutti::auth
