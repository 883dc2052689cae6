#include "broker/broker_url.h"

#include <utility>

#include "base/server_url.h"
#include "redis/redis_url.h"

namespace tutti::broker {
namespace {

Status NoUrl() {
  return InvalidArgument("invalid_value",
                         "is no address of a broker: write amqp://HOST[:PORT][/VHOST], "
                         "amqps://HOST or redis://HOST[:PORT][/DATABASE]");
}

}  // namespace

Result<BrokerUrl> ParseBrokerUrl(std::string_view url) {
  if (url.starts_with("redis://") || url.starts_with("rediss://")) {
    ASSIGN_OR_RETURN(redis::RedisUrl redis, redis::ParseRedisUrl(url));
    return BrokerUrl{.kind = BrokerKind::kRedis,
                     .user = std::move(redis.user),
                     .host = std::move(redis.host),
                     .port = redis.port,
                     .space = std::to_string(redis.database)};
  }
  ServerUrl parts;
  const UrlFault fault = ParseServerUrl(url, &parts);
  const bool tls = parts.scheme == "amqps";
  if (!tls && parts.scheme != "amqp") return NoUrl();
  if (fault == UrlFault::kPassword) {
    return InvalidArgument(
        "invalid_value",
        "a password does not belong into the address: broker.password_file names its file");
  }
  if (fault != UrlFault::kNone) return NoUrl();
  BrokerUrl out{.tls = tls,
                .user = std::move(parts.user),
                .host = std::move(parts.host),
                .port = parts.port.value_or(tls ? 5671 : 5672)};
  if (!parts.path.empty()) out.space = std::move(parts.path);
  return out;
}

std::string RedactedUrl(const BrokerUrl& url) {
  const char* scheme = url.kind == BrokerKind::kRedis ? "redis://"
                       : url.tls                      ? "amqps://"
                                                      : "amqp://";
  return scheme + HostAndPort(url.host, url.port);
}

}  // namespace tutti::broker
