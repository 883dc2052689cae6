#include "services/auth/resolve_caller.h"

#include <optional>

#include "base/ascii.h"
#include "services/auth/caller.h"
#include "services/auth/key_text.h"

namespace tutti::auth {

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
