#include "base/server_url.h"

#include <charconv>

namespace tutti {
namespace {

constexpr size_t kMaxPartBytes = 255;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// A user or a part of a path.
std::optional<std::string> Decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '/' || c == '?' || c == '#' || c == '@') return std::nullopt;
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (IsControl(c)) return std::nullopt;
    out += c;
  }
  if (out.size() > kMaxPartBytes) return std::nullopt;
  return out;
}

std::optional<int> PortOf(std::string_view digits) {
  int port = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (ec != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return port >= 1 && port <= 65'535 ? std::optional(port) : std::nullopt;
}

bool IsHost(std::string_view text) {
  for (const char c : text) {
    if (c == ' ' || IsControl(c) || c == '?' || c == '#' || c == '%' || c == '@') return false;
  }
  return !text.empty() && text.size() <= kMaxPartBytes;
}

// HOST[:PORT]
bool TakePlace(std::string_view place, ServerUrl* out) {
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return false;
    out->host = place.substr(1, end - 1);
    port = place.substr(end + 1);
  } else {
    const size_t colon = place.find(':');
    out->host = place.substr(0, colon);
    if (colon != std::string_view::npos) port = place.substr(colon);
  }
  if (!IsHost(out->host)) return false;
  if (port.empty()) return true;
  if (port.front() != ':') return false;
  out->port = PortOf(port.substr(1));
  return out->port.has_value();
}

}  // namespace

UrlFault ParseServerUrl(std::string_view url, ServerUrl* out) {
  *out = ServerUrl();
  const size_t mark = url.find("://");
  if (mark == std::string_view::npos || mark == 0) return UrlFault::kForm;
  out->scheme = url.substr(0, mark);
  url.remove_prefix(mark + 3);
  const size_t slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (const size_t at = place.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = place.substr(0, at);
    if (user.find(':') != std::string_view::npos) return UrlFault::kPassword;
    const std::optional<std::string> decoded = Decoded(user);
    if (!decoded.has_value() || decoded->empty()) return UrlFault::kForm;
    out->user = *decoded;
    place.remove_prefix(at + 1);
  }
  if (!TakePlace(place, out)) return UrlFault::kForm;
  if (slash == std::string_view::npos) return UrlFault::kNone;
  const std::optional<std::string> path = Decoded(url.substr(slash + 1));
  if (!path.has_value()) return UrlFault::kForm;
  out->path = *path;
  return UrlFault::kNone;
}

std::string HostAndPort(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace tutti
