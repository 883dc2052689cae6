// Checks of webhook targets: the URL that a client gave, and the addresses of its host. Pure.
//
// Prevents server-side request forgery: loopback, private, link-local, shared, reserved and
// multicast addresses are refused, also if they are embedded in IPv6 addresses. Sources: the IANA
// special-purpose registries for IPv4 and IPv6 (RFC 6890), RFC 6052 (NAT64), RFC 3056 (6to4).
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::webhooks {

struct Target {
  bool tls = true;
  std::string host;  // lower case; an IPv6 address without brackets
  uint16_t port = 443;
  std::string path;       // with the query; "/" at least
  std::string authority;  // as the Host field has it
};

inline constexpr size_t kMaxUrlBytes = 2048;

// https://HOST[:PORT][/PATH]. Hosts among `trusted` may also be http. Errors: invalid_value.
Result<Target> ParseTarget(std::string_view url, const std::set<std::string>& trusted);

// Whether an address (4 or 16 bytes in network order) is public.
bool IsPublic(std::span<const uint8_t> address);
// Like IsPublic, for a host that is written as an address; true for a name.
bool MayBePublic(const std::string& host);

}  // namespace tutti::webhooks
