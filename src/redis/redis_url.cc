#include "redis/redis_url.h"

#include <charconv>
#include <utility>

#include "base/server_url.h"

namespace tutti::redis {
namespace {

constexpr int kMaxDatabase = 1 << 20;

Status NoUrl() {
  return InvalidArgument("invalid_value",
                         "is no address of a Redis: write redis://[USER@]HOST[:PORT][/DATABASE]");
}

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view url) {
  ServerUrl parts;
  const UrlFault fault = ParseServerUrl(url, &parts);
  if (url.starts_with("rediss://")) {
    return InvalidArgument("invalid_value",
                           "rediss:// is not spoken: put a TLS tunnel before Redis, and name its "
                           "near end");
  }
  if (fault == UrlFault::kPassword) {
    return InvalidArgument("invalid_value",
                           "holds a password, which everybody can see who lists processes: "
                           "write it into a file");
  }
  if (fault != UrlFault::kNone || parts.scheme != "redis") return NoUrl();
  RedisUrl out{.user = std::move(parts.user),
               .host = std::move(parts.host),
               .port = parts.port.value_or(6379),
               .database = 0};
  if (parts.path.empty()) return out;
  const char* const last = parts.path.data() + parts.path.size();
  const auto [end, ec] = std::from_chars(parts.path.data(), last, out.database);
  if (ec != std::errc() || end != last || out.database < 0 || out.database > kMaxDatabase)
    return NoUrl();
  return out;
}

std::string RedactedUrl(const RedisUrl& url) {
  return "redis://" + HostAndPort(url.host, url.port) + "/" + std::to_string(url.database);
}

}  // namespace tutti::redis
