#include "base/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "base/ascii.h"

namespace tutti {
namespace {

constexpr size_t kMaxPartBytes = 255;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool IsHost(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPartBytes &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return c == ' ' || IsControl(c) || c == '%' || c == '@'; });
}

// 0: not the number of a port.
int PortOf(std::string_view digits) {
  const int port = ParseNumber<int>(digits).value_or(0);
  return port >= 1 && port <= 65'535 ? port : 0;
}

// HOST[:PORT]
UrlFault ParseAuthority(std::string_view text, Url* out) {
  out->authority = text;
  out->bracketed = text.starts_with('[');
  std::string_view port;  // with its colon
  if (out->bracketed) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return UrlFault::kOpenBracket;
    out->host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && port.front() != ':') return UrlFault::kAfterBracket;
  } else {
    const size_t colon = std::min(text.rfind(':'), text.size());
    out->host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) {
    out->port_digits = port.substr(1);
    out->port = PortOf(out->port_digits);
  }
  if (!out->bracketed && out->host.find(':') != std::string_view::npos) return UrlFault::kColons;
  if (!IsHost(out->host)) return UrlFault::kHost;
  return !port.empty() && out->port == 0 ? UrlFault::kPort : UrlFault::kNone;
}

}  // namespace

UrlFault ParseUrl(std::string_view text, Url* out) {
  *out = Url();
  if (const size_t mark = text.find("://"); mark != std::string_view::npos) {
    out->scheme = text.substr(0, mark);
    text.remove_prefix(mark + 3);
  }
  const size_t rest = std::min(text.find_first_of("?#"), text.size());
  out->rest = text.substr(rest);
  text = text.substr(0, rest);
  const size_t slash = std::min(text.find('/'), text.size());
  out->path = text.substr(slash);
  text = text.substr(0, slash);
  bool nobody = false;
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    const size_t colon = std::min(text.find(':'), at);
    nobody = at == 0;
    out->user = text.substr(0, colon);
    if (colon < at) out->password = text.substr(colon + 1, at - colon - 1);
    text.remove_prefix(at + 1);
  }
  const UrlFault fault = ParseAuthority(text, out);
  return nobody ? UrlFault::kUser : fault;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

std::optional<std::string> DecodeUrlPart(std::string_view text) {
  if (text.find_first_of("/?#@") != std::string_view::npos) return std::nullopt;
  std::optional<std::string> out = PercentDecode(text);
  if (!out || out->size() > kMaxPartBytes || std::any_of(out->begin(), out->end(), IsControl))
    return std::nullopt;
  return out;
}

std::string HostAndPort(std::string_view host, int port) {
  const std::string text(host);
  const bool v6 = host.find(':') != std::string_view::npos;
  return (v6 ? "[" + text + "]" : text) + ":" + std::to_string(port);
}

bool IsLoopback(std::string_view host) {
  if (host.find('\0') != std::string_view::npos) return false;
  const std::string text(host);
  if (text == "localhost") return true;
  if (in_addr v4{}; inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsLocalName(std::string_view host) { return IsLoopback(host) || host.ends_with(".localhost"); }

}  // namespace tutti
