// URLs and hosts: the only parser of URLs, and the only definition of which hosts are this machine.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

// A URL is [SCHEME://][USER[:PASSWORD]@]HOST[:PORT][/PATH][?QUERY][#FRAGMENT] (RFC 3986). The
// parser's users decide which of the parts they accept.
//
// Parts of a URL in their written form, escapes included: views into the text that was parsed.
struct Url {
  std::optional<std::string_view> scheme;  // nothing: the text has no "://"
  std::optional<std::string_view> user, password;
  std::string_view authority;  // HOST[:PORT], with the brackets of an IPv6 address
  std::string_view host;       // without brackets
  bool bracketed = false;
  std::string_view port_digits;  // behind the colon; empty: none
  int port = 0;                  // 1 to 65,535; 0: none is given, or UrlFault::kPort
  std::string_view path;         // empty or from '/' on
  std::string_view rest;         // query and fragment: empty or from '?' or '#' on
};

enum class UrlFault : uint8_t {
  kNone,
  kUser,          // nothing precedes '@'
  kOpenBracket,   // '[' without ']'
  kAfterBracket,  // something other than :PORT follows ']'
  kColons,        // more than one colon without brackets; the last one precedes `port_digits`
  kHost,          // empty, above 255 bytes, or with a blank, a control character, '%' or '@'
  kPort,          // not a number from 1 to 65535
};

// Parses `text` and returns the first fault in the order above. After a fault, `out` holds the
// parts that could still be separated.
UrlFault ParseUrl(std::string_view text, Url* out);

// A user or one part of a path without escapes. Nothing: an incomplete escape, a control character,
// one of "/?#@" unescaped, or more than 255 bytes.
std::optional<std::string> DecodeUrlPart(std::string_view text);

// Any text with its escapes decoded. Nothing: an incomplete escape.
std::optional<std::string> PercentDecode(std::string_view text);

// "HOST:PORT", with brackets around IPv6.
std::string HostAndPort(std::string_view host, int port);

// Host names and addresses that mean this machine: for servers that listen, for clients that need
// no TLS to it, and for the Host header of requests by web pages.
//
// Whether `host` is certainly this machine: `localhost`, 127.0.0.0/8 or ::1, without brackets. A
// host name that starts with "127." is not.
bool IsLoopback(std::string_view host);

// Whether a request to `host`, in lower case, is for this machine. Also true for names below
// `localhost`, which no other machine can have (RFC 6761). Clients that send secrets must not rely
// on it, since a resolver may map such names elsewhere.
bool IsLocalName(std::string_view host);

}  // namespace tutti
