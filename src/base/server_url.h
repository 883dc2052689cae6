// ServerUrl: a parsed server address, SCHEME://[USER@]HOST[:PORT][/PATH] (RFC 3986, without query
// and fragment). Pure functions over plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

struct ServerUrl {
  std::string scheme;       // as it was written
  std::string user;         // escapes decoded; empty: none given
  std::string host;         // a name, or an address in digits (IPv6 without brackets)
  std::optional<int> port;  // 1 to 65,535
  std::string path;         // one part, behind the slash, escapes decoded; empty: none
  friend bool operator==(const ServerUrl&, const ServerUrl&) = default;
};

enum class UrlFault : uint8_t {
  kNone,
  kForm,      // not a valid URL of this form
  kPassword,  // contains a password, which a list of processes would show
};

// Parses `url`. User, host and path may have at most 255 bytes and no control characters. After a
// fault `out` is unspecified.
UrlFault ParseServerUrl(std::string_view url, ServerUrl* out);

// "HOST:PORT", with brackets around IPv6.
std::string HostAndPort(const std::string& host, int port);

}  // namespace tutti
