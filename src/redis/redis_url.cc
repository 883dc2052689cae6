#include "redis/redis_url.h"

#include <charconv>
#include <optional>

namespace tutti::redis {
namespace {

constexpr int kMostDatabase = 1 << 20;

Status NoUrl() {
  return InvalidArgument("invalid_value",
                         "is no address of a Redis: write redis://[USER@]HOST[:PORT][/DATABASE]");
}

std::optional<int> NumberOf(std::string_view digits, int least, int most) {
  int number = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (ec != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (number < least || number > most) return std::nullopt;
  return number;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool IsPlain(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '%' || c == '/' || c == '@')
      return false;
  }
  return !text.empty() && text.size() <= 255;
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view url) {
  if (url.starts_with("rediss://")) {
    return InvalidArgument("invalid_value",
                           "rediss:// is not spoken: put a TLS tunnel before Redis, and name its "
                           "near end");
  }
  if (!TakePrefix("redis://", &url)) return NoUrl();
  RedisUrl out;
  const size_t slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (const size_t at = place.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = place.substr(0, at);
    place.remove_prefix(at + 1);
    if (user.find(':') != std::string_view::npos) {
      return InvalidArgument("invalid_value",
                             "holds a password, which everybody can see who lists processes: "
                             "write it into a file");
    }
    if (!IsPlain(user)) return NoUrl();
    out.user = user;
  }
  std::string_view port;
  bool has_port = false;
  if (TakePrefix("[", &place)) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return NoUrl();
    out.host = place.substr(0, end);
    port = place.substr(end + 1);
    has_port = TakePrefix(":", &port);
    if (!has_port && !port.empty()) return NoUrl();
  } else {
    const size_t colon = place.find(':');
    out.host = place.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = place.substr(colon + 1);
  }
  if (!IsPlain(out.host)) return NoUrl();
  if (has_port) {
    const std::optional<int> number = NumberOf(port, 1, 65'535);
    if (!number.has_value()) return NoUrl();
    out.port = *number;
  }
  if (slash == std::string_view::npos || slash + 1 == url.size()) return out;
  const std::optional<int> database = NumberOf(url.substr(slash + 1), 0, kMostDatabase);
  if (!database.has_value()) return NoUrl();
  out.database = *database;
  return out;
}

std::string ShownUrl(const RedisUrl& url) {
  const bool v6 = url.host.find(':') != std::string::npos;
  return "redis://" + (v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port) +
         "/" + std::to_string(url.database);
}

}  // namespace tutti::redis
