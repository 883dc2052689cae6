#include "mqtt/address.h"

#include <arpa/inet.h>

#include <utility>

#include "base/quote.h"
#include "base/url.h"
#include "mqtt/topics.h"

namespace tutti::mqtt {
namespace {

constexpr size_t kMaxHostBytes = 253;  // of a name in DNS

Status Bad(std::string message) { return InvalidArgument("invalid_value", std::move(message)); }

bool IsAddress(int family, const std::string& host) {
  in6_addr address{};  // has room for one of IPv4
  return inet_pton(family, host.c_str(), &address) == 1;
}

// RFC 1123, with the underscore that names inside of networks have.
bool IsName(std::string_view host) {
  return IsPlainText(host, kMaxHostBytes, "-_.") && host.front() != '.' && host.front() != '-' &&
         host.find("..") == std::string_view::npos;
}

// A text of digits and dots must be a valid IPv4 address.
bool LooksLikeIpv4(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Error for an unknown scheme, with the scheme that may have been meant.
Status BadScheme(std::string_view scheme) {
  if (scheme == "tcp") return Bad("write mqtt://HOST[:PORT] instead of tcp://");
  if (scheme == "ssl" || scheme == "tls") return Bad("write mqtts://HOST[:PORT] instead of ssl://");
  if (scheme == "ws" || scheme == "wss") {
    return Bad("a broker is reached over TCP, not WebSocket: mqtt://HOST[:PORT] or mqtts://...");
  }
  return Bad("the broker must be mqtt://HOST[:PORT] or mqtts://HOST[:PORT], not the scheme " +
             Quote(scheme));
}

}  // namespace

Result<Address> ParseAddress(std::string_view text) {
  Url url;
  const UrlFault fault = ParseUrl(text, &url);
  if (!url.scheme.has_value()) {
    return Bad("the broker must be mqtt://HOST[:PORT] or mqtts://HOST[:PORT]; \"://\" is missing");
  }
  if (url.scheme != "mqtt" && url.scheme != "mqtts") return BadScheme(*url.scheme);
  // Not quoted: it may be a password.
  if (text.find('@') != std::string_view::npos) {
    return Bad(
        "the broker's URL must not contain a user or password, which others could read; use their "
        "options");
  }
  if ((!url.path.empty() && url.path != "/") || !url.rest.empty()) {
    return Bad("the broker's URL must not contain a path");
  }
  const std::string host(url.host);
  if (fault == UrlFault::kOpenBracket) return Bad("the broker's URL lacks a \"]\"");
  if (url.bracketed && !IsAddress(AF_INET6, host)) return Bad(Quote(host) + " is no IPv6 address");
  if (fault == UrlFault::kAfterBracket) return Bad("behind \"]\" only :PORT may follow");
  if (fault == UrlFault::kColons) {
    return Bad("an IPv6 address must stand in brackets: mqtts://[::1]:8883");
  }
  if (host.empty()) return Bad("the broker's URL names no host");
  if (!url.bracketed && (LooksLikeIpv4(host) ? !IsAddress(AF_INET, host) : !IsName(host))) {
    return Bad(Quote(host) + " is neither an address nor the name of a host");
  }
  if (fault != UrlFault::kNone) {
    return Bad("the broker's port must be a number from 1 to 65535, not " + Quote(url.port_digits));
  }
  const bool tls = url.scheme == "mqtts";
  const int default_port = tls ? 8883 : 1883;
  return Address{.host = host, .port = url.port != 0 ? url.port : default_port, .tls = tls};
}

std::string UrlOf(const Address& address) {
  return (address.tls ? "mqtts://" : "mqtt://") + HostAndPort(address.host, address.port);
}

}  // namespace tutti::mqtt
