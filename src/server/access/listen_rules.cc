#include "server/access/listen_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/quote.h"
#include "base/url.h"

namespace tutti::access {
namespace {

// "127.0.0.1:8080" -> "127.0.0.1"; "[::1]:80" -> "::1". Nothing when it is not host[:port].
std::optional<std::string> HostName(std::string_view authority) {
  Url url;
  const UrlFault fault = ParseUrl(authority, &url);
  // A scheme, a user or a path is not allowed: the parser does not count it as authority.
  if (fault != UrlFault::kNone || url.authority != authority) return std::nullopt;
  std::string_view host = url.host;
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
  if (!plain) return std::nullopt;
  if (host.size() > 1 && host.ends_with('.')) host.remove_suffix(1);  // the DNS root
  return AsciiLower(host);
}

// Whether `name` is an IP address. HostName() has accepted `name`, so only an IPv6 address contains
// a colon.
bool IsAddressInDigits(std::string_view name) {
  return name.find(':') != std::string_view::npos ||
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

Status Malformed(std::string message) {
  return InvalidArgument("invalid_value", std::move(message));
}
Status Forbidden(std::string message) {
  return Status(StatusCode::kPermissionDenied, "insufficient_scope", std::move(message));
}

}  // namespace

Status CheckBind(const BindRequest& bind) {
  if (bind.tls_cert_file.empty() != bind.tls_key_file.empty()) {
    return BadValue("tls-cert", "--tls-cert and --tls-key must be set together");
  }
  if (!bind.tls_client_ca_file.empty() && bind.tls_cert_file.empty()) {
    return BadValue("tls-client-ca", "--tls-client-ca needs --tls-cert and --tls-key");
  }
  // Without TLS, a key would be sent in the clear; without a key, TLS would admit every caller.
  const bool safe = bind.has_key && !bind.tls_cert_file.empty();
  if (bind.loopback || safe) return OkStatus();
  return BadValue("host",
                  "listening on " + bind.host +
                      " (not loopback) needs a key (`tutti keys create NAME`, --api-key-file or "
                      "TUTTI_API_KEY) and TLS (--tls-cert, --tls-key)");
}

std::string AddressOf(const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; }

Status BadHost() { return BadValue("host", "--host must be an IP address or localhost"); }

std::string AddressUrl(std::string_view scheme, const std::string& address, int port) {
  return std::string(scheme) + "://" + HostAndPort(address, port);
}

WebRule::WebRule(std::vector<std::string> origins, std::vector<std::string> hosts, bool loopback)
    : origins_(std::move(origins)), hosts_(std::move(hosts)), loopback_(loopback) {}

Status WebRule::Check(const WebFields& fields, std::string* echo) const {
  if (echo != nullptr) echo->clear();
  RETURN_IF_ERROR(CheckHost(fields));
  return CheckOrigin(fields, echo);
}

// On a loopback address only local names are answered, so that a page whose name was made to point
// at 127.0.0.1 cannot talk to this server. Elsewhere the names can be listed for the same reason; a
// numeric address is always accepted there, because no DNS record can redirect it, and probes of
// orchestrators use it.
Status WebRule::CheckHost(const WebFields& fields) const {
  if (fields.host == nullptr) return OkStatus();  // HTTP/1.0; the framing requires Host in 1.1
  const std::optional<std::string> name = HostName(*fields.host);
  if (!name.has_value()) return Malformed("malformed HTTP request: the Host field");
  const bool listed = std::find(hosts_.begin(), hosts_.end(), *name) != hosts_.end();
  const bool allowed = loopback_ ? IsLocalName(*name) : hosts_.empty() || IsAddressInDigits(*name);
  if (listed || allowed) return OkStatus();
  return Forbidden("this server is not known by the name " + Quote(*name, 64) +
                   " of the Host field; see --allowed-hosts");
}

Status WebRule::CheckOrigin(const WebFields& fields, std::string* echo) const {
  if (fields.origin == nullptr) return OkStatus();
  if (fields.origins > 1) return Malformed("malformed HTTP request: more than one Origin");
  const std::string& origin = *fields.origin;
  for (const std::string& allowed : origins_) {
    if (allowed == "*" || allowed == AsciiLower(origin)) {
      if (echo != nullptr) *echo = origin;
      return OkStatus();
    }
  }
  const size_t scheme = origin.find("://");
  if (scheme != std::string::npos && fields.host != nullptr &&
      AsciiLower(origin.substr(scheme + 3)) == AsciiLower(*fields.host)) {
    return OkStatus();  // a page of this very server
  }
  return Forbidden("this origin may not call this server; see --cors-origin");
}

}  // namespace tutti::access
