#include "redis/redis_url.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/url.h"

namespace tutti::redis {
namespace {

constexpr int kMaxDatabase = 1 << 20;

Status NoUrl() {
  return InvalidArgument("invalid_value",
                         "is no address of a Redis: write redis://[USER@]HOST[:PORT][/DATABASE]");
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view url) {
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  if (url.starts_with("rediss://")) {
    return InvalidArgument("invalid_value",
                           "rediss:// is not spoken: put a TLS tunnel before Redis, and name its "
                           "near end");
  }
  if (parts.password.has_value()) {
    return InvalidArgument("invalid_value",
                           "holds a password, which everybody can see who lists processes: "
                           "write it into a file");
  }
  std::optional<std::string> user = DecodeUrlPart(parts.user.value_or(""));
  const std::optional<std::string> database =
      DecodeUrlPart(parts.path.substr(parts.path.empty() ? 0 : 1));
  if (fault != UrlFault::kNone || parts.scheme != "redis" || !parts.rest.empty() ||
      !user.has_value() || !database.has_value())
    return NoUrl();
  RedisUrl out{.user = *std::move(user),
               .host = std::string(parts.host),
               .port = parts.port != 0 ? parts.port : 6379,
               .database = 0};
  if (database->empty()) return out;
  const char* const last = database->data() + database->size();
  const auto [end, ec] = std::from_chars(database->data(), last, out.database);
  if (ec != std::errc() || end != last || out.database < 0 || out.database > kMaxDatabase)
    return NoUrl();
  return out;
}

std::string RedactedUrl(const RedisUrl& url) {
  return "redis://" + HostAndPort(url.host, url.port) + "/" + std::to_string(url.database);
}

}  // namespace tutti::redis
