#include "server/http/connection/request_path.h"

#include <algorithm>

#include "base/ascii.h"
#include "services/auth/key_text.h"

namespace tutti::http {
namespace {

// Characters that never need an escape, and those that must not hide behind one.
bool EscapeIsSuspicious(int c) {
  const bool unreserved = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                          (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_' || c == '~';
  return unreserved || c < 0x20 || c == 0x7F || c == '\\';
}

}  // namespace

std::optional<std::string> CanonicalPath(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  if (path == "/v2/") path = "/v2";  // the published descriptions of KServe have both
  if (path.empty() || path[0] != '/' || target.find('#') != std::string_view::npos)
    return std::nullopt;
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (c <= 0x20 || c >= 0x7F || c == '\\') return std::nullopt;
    if (c == '%') {
      if (i + 2 >= path.size()) return std::nullopt;
      const int high = HexDigit(path[i + 1]), low = HexDigit(path[i + 2]);
      if (high < 0 || low < 0 || EscapeIsSuspicious(high * 16 + low)) return std::nullopt;
      i += 2;
    }
  }
  for (std::string_view rest = path.substr(1); path.size() > 1;) {
    const size_t slash = rest.find('/');
    const std::string_view segment = rest.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..") return std::nullopt;
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return std::string(path);
}

std::string PathForLog(std::string_view target, std::string_view key) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!AsciiLower(target.substr(0, scheme.size())).starts_with(scheme)) continue;
    target.remove_prefix(std::min(target.find_first_of("/?#", scheme.size()), target.size()));
    if (!target.starts_with('/')) return "/";
  }
  target = target.substr(0, target.find_first_of("?#"));
  if (target != "*" && !target.starts_with('/')) return "-";  // an authority, or no target at all
  std::string decoded;
  for (size_t i = 0; i < target.size(); ++i) {
    const bool escape = target[i] == '%' && i + 2 < target.size() && HexDigit(target[i + 1]) >= 0 &&
                        HexDigit(target[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(HexDigit(target[i + 1]) * 16 + HexDigit(target[i + 2]))
                      : target[i];
    if (escape) i += 2;
  }
  const bool secret = (!key.empty() && decoded.find(key) != std::string::npos) ||
                      decoded.find(auth::kKeyPrefix) != std::string::npos;
  return secret ? "-" : std::string(target);
}

std::string DecodedPath(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace tutti::http
