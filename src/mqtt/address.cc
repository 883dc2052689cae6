#include "mqtt/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "base/quote.h"

namespace tutti::mqtt {
namespace {

constexpr size_t kMaxHostBytes = 253;  // of a name in DNS

Status Bad(std::string message) { return InvalidArgument("invalid_value", std::move(message)); }

bool IsIpv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsIpv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// RFC 1123, with the underscore that names inside of networks have.
bool IsName(std::string_view host) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !host.empty() && host.size() <= kMaxHostBytes &&
         std::all_of(host.begin(), host.end(), fits) && host.front() != '.' &&
         host.front() != '-' && host.find("..") == std::string_view::npos;
}

// Digits and dots alone look like an address and are to be one.
bool LooksLikeIpv4(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<int> ParsePort(std::string_view digits) {
  int port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end || digits.empty() || digits.front() == '-' || port < 1 ||
      port > 65535) {
    return Bad("the broker's port must be a number from 1 to 65535, not " + Quote(digits));
  }
  return port;
}

// What precedes "://" and is not ours, with what may have been meant.
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

Result<Address> ParseUrl(std::string_view url) {
  const size_t colon = url.find("://");
  if (colon == std::string_view::npos) {
    return Bad("the broker must be mqtt://HOST[:PORT] or mqtts://HOST[:PORT]; \"://\" is missing");
  }
  const std::string_view scheme = url.substr(0, colon);
  if (scheme != "mqtt" && scheme != "mqtts") return BadScheme(scheme);
  Address address;
  address.tls = scheme == "mqtts";
  address.port = address.tls ? 8883 : 1883;

  std::string_view rest = url.substr(colon + 3);
  // Not quoted: it may be a password.
  if (rest.find('@') != std::string_view::npos) {
    return Bad(
        "the broker's URL must not contain a user or password, which others could read; use their "
        "options");
  }
  if (const size_t end = rest.find_first_of("/?#"); end != std::string_view::npos) {
    if (rest.substr(end) != "/") {
      return Bad("the broker's URL must not contain a path");
    }
    rest = rest.substr(0, end);
  }

  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return Bad("the broker's URL lacks a \"]\"");
    address.host = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
    if (!IsIpv6(address.host)) {
      return Bad(Quote(address.host) + " is no IPv6 address");
    }
    if (!rest.empty() && rest.front() != ':') return Bad("behind \"]\" only :PORT may follow");
  } else {
    const size_t end = std::min(rest.find(':'), rest.size());
    address.host = rest.substr(0, end);
    rest = rest.substr(end);
    if (rest.find(':', 1) != std::string_view::npos) {
      return Bad("an IPv6 address must stand in brackets: mqtts://[::1]:8883");
    }
    if (address.host.empty()) return Bad("the broker's URL names no host");
    if (LooksLikeIpv4(address.host) ? !IsIpv4(address.host) : !IsName(address.host)) {
      return Bad(Quote(address.host) + " is neither an address nor the name of a host");
    }
  }
  if (!rest.empty()) {
    ASSIGN_OR_RETURN(address.port, ParsePort(rest.substr(1)));
  }
  return address;
}

std::string UrlOf(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return std::string(address.tls ? "mqtts://" : "mqtt://") +
         (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace tutti::mqtt
