#include "services/auth/jwt.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "protocol/json/json.h"
#include "services/auth/base64url.h"

namespace tutti::auth {
namespace {

using protocol::Json;
using protocol::JsonDocument;
using protocol::JsonObject;

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
