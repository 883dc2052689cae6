#include "broker/broker.h"

#include <optional>
#include <utility>

#include "base/url.h"
#include "redis/connection.h"

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
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  const bool tls = parts.scheme == "amqps";
  if (!tls && parts.scheme != "amqp") return NoUrl();
  if (parts.password.has_value()) {
    return InvalidArgument(
        "invalid_value",
        "a password does not belong into the address: broker.password_file names its file");
  }
  std::optional<std::string> user = DecodeUrlPart(parts.user.value_or(""));
  std::optional<std::string> space = DecodeUrlPart(parts.path.substr(parts.path.empty() ? 0 : 1));
  if (fault != UrlFault::kNone || !parts.rest.empty() || !user.has_value() || !space.has_value())
    return NoUrl();
  const int default_port = tls ? 5671 : 5672;
  BrokerUrl out{.tls = tls,
                .user = *std::move(user),
                .host = std::string(parts.host),
                .port = parts.port != 0 ? parts.port : default_port};
  if (!space->empty()) out.space = *std::move(space);
  return out;
}

std::string RedactedUrl(const BrokerUrl& url) {
  const char* scheme = url.kind == BrokerKind::kRedis ? "redis://"
                       : url.tls                      ? "amqps://"
                                                      : "amqp://";
  return scheme + HostAndPort(url.host, url.port);
}

}  // namespace tutti::broker
