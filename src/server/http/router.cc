#include "server/http/router.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/ascii.h"
#include "protocol/http1/multipart.h"
#include "protocol/json/field_error.h"
#include "server/http/connection/content_coding.h"
#include "server/http/websocket/socket_upgrade.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

constexpr std::array<std::string_view, 9> kMethods = {
    "GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE"};

// "there is no such route", with a suggestion if only /v1 or a slash differs.
std::string NoSuchRoute(std::string_view target) {
  std::string message = "there is no such route";
  std::string_view path = target.substr(0, target.find('?'));
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (!CanonicalPath(path).has_value()) return message;
  for (const std::string_view prefix : {"", "/v1"}) {
    const Route* route = FindRoute(std::string(prefix) + std::string(path)).For("");
    // Named from the table, never from what was sent.
    if (route == nullptr || route->id == RouteId::kNotOffered) continue;
    return message + "; try " + std::string(route->pattern);
  }
  if (path.starts_with("/v1/v1/")) return message + "; /v1 stands in it twice";
  return message;
}

// Format of errors before the caller is authenticated, and for unknown routes. Clients of the paths
// tested below understand only their own format.
protocol::ErrorForm UnroutedForm(const Route* route, std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  if (route != nullptr) {
    const bool own = route->errors == protocol::ErrorForm::kKserve ||
                     route->errors == protocol::ErrorForm::kAnthropic ||
                     route->errors == protocol::ErrorForm::kOllama;
    return own ? route->errors : protocol::ErrorForm::kOpenAi;
  }
  if (path.starts_with("/v2/")) return protocol::ErrorForm::kKserve;
  if (path.starts_with("/api/")) return protocol::ErrorForm::kOllama;
  const bool messages = path.starts_with(kMessages) &&
                        (path.size() == kMessages.size() || path[kMessages.size()] == '/');
  return messages ? protocol::ErrorForm::kAnthropic : protocol::ErrorForm::kOpenAi;
}

Status Malformed(std::string message) {
  return InvalidArgument("invalid_value", std::move(message));
}
Status Unimplemented(std::string_view code, std::string message) {
  return Status(StatusCode::kUnimplemented, code, std::move(message));
}

Status Unsupported(std::string message) {
  return Unimplemented("unsupported_media_type", std::move(message));
}

// Triton's server looks at no media type, and its clients and examples send what their libraries
// make of a body by themselves.
Status CheckTensorMedia(std::string_view media) {
  for (const std::string_view known :
       {"application/json", "application/octet-stream", "application/x-www-form-urlencoded"}) {
    if (media == known) return OkStatus();
  }
  return Unsupported(
      "the body must be JSON, with binary tensors behind it or without: send Content-Type: "
      "application/json or application/octet-stream");
}

// "Application/JSON; charset=\"UTF-8\"": the name and each charset, in lower case.
struct MediaType {
  std::string name;
  std::vector<std::string> charsets;
};

MediaType ParseMediaType(std::string_view field) {
  const std::string lower = AsciiLower(field);
  MediaType media;
  size_t begin = 0;
  bool quoted = false;
  for (size_t at = 0; at <= lower.size(); ++at) {
    if (at < lower.size() && lower[at] == '"') quoted = !quoted;
    if (at < lower.size() && (lower[at] != ';' || quoted)) continue;
    const std::string_view part = Trimmed(std::string_view(lower).substr(begin, at - begin));
    if (begin == 0) {
      media.name = part;
    } else if (part.starts_with("charset=")) {
      std::string value(part.substr(8));
      std::erase(value, '"');
      media.charsets.push_back(std::move(value));
    }
    begin = at + 1;
  }
  return media;
}

bool IsJson(std::string_view media) {
  return media == "application/json" || media == "text/json" ||
         (media.starts_with("application/") && media.ends_with("+json"));
}

// Ollama's server looks at no media type, and its examples send what curl and other clients make of
// a text by themselves. A page of another site could send such a request without asking first, so
// one from a browser has to be JSON.
bool MayHaveAnyMedia(const HttpRequest& request, const Route& route) {
  return route.errors == protocol::ErrorForm::kOllama && request.Find("origin") == nullptr &&
         request.Find("sec-fetch-site") == nullptr;
}

Status CheckMedia(const HttpRequest& request, const Route& route) {
  const BodyKind kind = route.body;
  if (const std::string* encoding = request.Find("content-encoding"); encoding != nullptr) {
    const bool known = kind == BodyKind::kTensors ? ParseCoding(*encoding).has_value()
                                                  : AsciiLower(*encoding) == "identity";
    if (!known || request.Count("content-encoding") > 1) {
      return Unsupported(kind == BodyKind::kTensors
                             ? "of content encodings gzip or deflate is accepted, once"
                             : "content encodings are not accepted");
    }
  }
  if (request.Count("content-type") > 1) return Unsupported("more than one Content-Type");
  const std::string* type = request.Find("content-type");
  if (kind == BodyKind::kUpload)
    return protocol::MultipartBoundary(type == nullptr ? "" : *type).status();
  if (type == nullptr) return OkStatus();
  const MediaType media = ParseMediaType(*type);
  if (kind == BodyKind::kTensors) {
    RETURN_IF_ERROR(CheckTensorMedia(media.name));
  } else if (!IsJson(media.name) && !MayHaveAnyMedia(request, route)) {
    return Unsupported("the body must be JSON: send Content-Type: application/json");
  }
  // Any other parameter changes nothing of JSON, whose encoding is always UTF-8.
  for (const std::string& charset : media.charsets) {
    if (charset == "utf-8" || charset == "utf8" || charset == "us-ascii" || charset == "ascii")
      continue;
    return Unsupported("charset " + protocol::Excerpt(charset) + " is not read; send UTF-8");
  }
  return OkStatus();
}

// `ask` of what the request and its connection show.
template <typename Ask>
auto OfShown(const HttpRequest& request, const auth::CertifiedName* certificate, const Ask& ask) {
  const std::string* const field = request.Find("authorization");
  const std::string_view first = field == nullptr ? std::string_view() : *field;
  std::array values = {first, first};  // of a second one it matters only that it is there
  size_t count = std::min(request.Count("authorization"), values.size());
  // Anthropic's clients send the key in a field of their own. If both fields are present, they must
  // agree, because the server must not choose between two callers.
  const std::string* const key = request.Find("x-api-key");
  const std::string bearer = key == nullptr ? std::string() : "Bearer " + *key;
  if (key != nullptr && count == 0) {
    values.fill(bearer);
    count = std::min(request.Count("x-api-key"), values.size());
  } else if (key != nullptr &&
             (request.Count("x-api-key") > 1 || auth::BearerOf({values.data(), count}) != *key)) {
    count = values.size();
  }
  return ask(auth::PresentedCredentials{.authorization = {values.data(), count},
                                        .certificate = certificate});
}

// "/tutti/v1/models?x" -> "/v1/models?x", "/tutti" -> "/"; other targets stay.
std::string WithoutBase(std::string_view base, std::string target) {
  if (base.empty() || !target.starts_with(base)) return target;
  const std::string_view rest = std::string_view(target).substr(base.size());
  if (rest.empty() || rest.front() == '?') return "/" + std::string(rest);
  return rest.front() == '/' ? std::string(rest) : target;
}

std::string Claim(const HttpRequest& request, const auth::CertifiedName* certificate) {
  return OfShown(request, certificate, &auth::ClaimOf);
}

}  // namespace

bool IsKnownMethod(std::string_view method) {
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

Router::Router(const HttpOptions& options, bool loopback, const auth::Authenticator& authority)
    : web_rule_(options.cors_origins, options.allowed_hosts, loopback),
      base_(options.web_base),
      loopback_(loopback),
      authority_(authority) {}

Result<auth::PrincipalRef> Router::ResolveCaller(const HttpRequest& request,
                                                 const auth::CertifiedName* certificate) const {
  return OfShown(request, certificate, [this](const auth::PresentedCredentials& shown) {
    return auth::ResolveCaller(authority_, loopback_, shown, std::time(nullptr));
  });
}

// Browsers cannot set header fields of a WebSocket request. An open server requires no credential
// at all.
bool Router::MaySayLater(const Route* route, const HttpRequest& request,
                         const auth::CertifiedName* certificate) const {
  const bool socket = route != nullptr &&
                      (route->id == RouteId::kResponsesSocket || route->id == RouteId::kChatSocket);
  return socket && WantsSocket(request) && request.Count("authorization") == 0 &&
         request.Count("x-api-key") == 0 && certificate == nullptr && NeedsCredential();
}

Decision Router::Decide(const HttpRequest& request, const auth::CertifiedName* certificate) const {
  Decision decision;
  decision.head_only = request.method == "HEAD";
  const auto refuse = [&](Status status) {
    decision.refusal = std::move(status);
    return decision;
  };

  // Absolute form: the same as an origin-form target whose Host is that authority.
  std::string target = request.target;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!AsciiLower(target.substr(0, scheme.size())).starts_with(scheme)) continue;
    const size_t slash = std::min(target.find_first_of("/?", scheme.size()), target.size());
    const std::string* host = request.Find("host");
    if (host != nullptr &&
        AsciiLower(*host) != AsciiLower(target.substr(scheme.size(), slash - scheme.size()))) {
      return refuse(Malformed("malformed HTTP request: the target and the Host field differ"));
    }
    target.erase(0, slash);
    if (target.empty()) target.push_back('/');
  }

  const access::WebFields fields{.host = request.Find("host"),
                                 .origin = request.Find("origin"),
                                 .origins = request.Count("origin")};
  if (Status status = web_rule_.Check(fields, &decision.cors_origin); !status.ok())
    return refuse(std::move(status));
  decision.preflight = request.method == "OPTIONS" && !decision.cors_origin.empty() &&
                       request.Find("access-control-request-method") != nullptr;

  target = WithoutBase(base_, std::move(target));
  const std::optional<std::string> path = CanonicalPath(target);
  FoundRoute found = path.has_value() ? FindRoute(*path) : FoundRoute();
  const Route* const route = found.For(request.method);
  decision.argument = std::move(found.argument);
  decision.item = std::move(found.item);
  decision.version = std::move(found.version);
  if (path.has_value()) decision.unrouted_errors = UnroutedForm(route, *path);
  const bool probe = request.method == "HEAD" || request.method == "OPTIONS";
  const bool open = decision.preflight ||
                    (route != nullptr &&
                     ((request.method == "GET" && route->open) || (probe && route->open_probe)));
  decision.asks_later = !open && MaySayLater(route, request, certificate);
  if (!open && !decision.asks_later) {
    Result<auth::PrincipalRef> who = ResolveCaller(request, certificate);
    if (!who.ok()) {
      decision.claim = Claim(request, certificate);
      return refuse(std::move(who).status());
    }
    decision.principal = *std::move(who);
  }

  if (!IsKnownMethod(request.method)) {
    return refuse(Unimplemented("not_implemented", "this method is not known here"));
  }
  if (request.method == "CONNECT" || request.method == "TRACE") {
    decision.allow = route == nullptr ? "GET, HEAD, POST, DELETE, OPTIONS" : AllowOf(found.methods);
    return refuse(
        Unimplemented("method_not_allowed", "this server is no proxy and does not echo requests"));
  }
  if (route == nullptr) return refuse(NotFound("not_found", NoSuchRoute(target)));
  decision.route = route;
  decision.allow = AllowOf(found.methods);
  if (request.method == "OPTIONS") {
    decision.options = true;
    return decision;
  }
  if (!Answers(*route, request.method) && route->id != RouteId::kNotOffered) {
    return refuse(Unimplemented("method_not_allowed", "this route answers " + decision.allow));
  }
  if (decision.principal != nullptr) {
    if (Status status = auth::MayUse(*decision.principal, route->rule); !status.ok())
      return refuse(std::move(status));
  }
  if (route->id == RouteId::kNotOffered) {
    return refuse(Unimplemented("not_implemented", "this route is not in this release"));
  }
  if (route->method == "POST") {
    if (Status status = CheckMedia(request, *route); !status.ok()) return refuse(std::move(status));
  }
  if (const std::string* expect = request.Find("expect");
      expect != nullptr && AsciiLower(*expect) != "100-continue") {
    return refuse(Unimplemented("expectation_failed", "only 100-continue can be expected"));
  }
  return decision;
}

}  // namespace tutti::http
