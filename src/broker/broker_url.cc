#include "broker/broker_url.h"

#include <charconv>
#include <optional>
#include <utility>

#include "redis/redis_url.h"

namespace tutti::broker {
namespace {

constexpr const char* kForm =
    "is no address of a broker: write amqp://HOST[:PORT][/VHOST], amqps://HOST or "
    "redis://HOST[:PORT][/DATABASE]";

Status Bad(const char* what) { return InvalidArgument("invalid_value", what); }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    out += c;
  }
  return out;
}

std::optional<int> PortOf(std::string_view digits) {
  int port = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (ec != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return port >= 1 && port <= 65'535 ? std::optional(port) : std::nullopt;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
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
  BrokerUrl out;
  if (TakePrefix("amqp://", &url)) {
    out.port = 5672;
  } else if (TakePrefix("amqps://", &url)) {
    out.tls = true;
    out.port = 5671;
  } else {
    return Bad(kForm);
  }
  const size_t slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (const size_t at = place.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = place.substr(0, at);
    place.remove_prefix(at + 1);
    if (user.find(':') != std::string_view::npos)
      return Bad(
          "a password does not belong into the address: broker.password_file names its file");
    const auto name = Unescaped(user);
    if (!name.has_value() || name->empty()) return Bad(kForm);
    out.user = *name;
  }
  std::string_view port;
  if (TakePrefix("[", &place)) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return Bad(kForm);
    out.host = place.substr(0, end);
    port = place.substr(end + 1);
    if (!port.empty() && !TakePrefix(":", &port)) return Bad(kForm);
    if (port.empty() && place.ends_with(':')) return Bad(kForm);
  } else {
    const size_t colon = place.find(':');
    out.host = place.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = place.substr(colon + 1);
      if (port.empty()) return Bad(kForm);
    }
  }
  for (const char c : out.host) {
    if (c <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '%') return Bad(kForm);
  }
  if (out.host.empty()) return Bad(kForm);
  if (!port.empty()) {
    const std::optional<int> number = PortOf(port);
    if (!number.has_value()) return Bad(kForm);
    out.port = *number;
  }
  if (slash == std::string_view::npos || slash + 1 == url.size()) return out;
  const std::string_view space = url.substr(slash + 1);
  if (space.find_first_of("/?#") != std::string_view::npos) return Bad(kForm);
  const auto name = Unescaped(space);
  if (!name.has_value()) return Bad(kForm);
  if (name->size() > 255) return Bad(kForm);
  out.space = *name;
  return out;
}

std::string ShownUrl(const BrokerUrl& url) {
  const char* scheme = url.kind == BrokerKind::kRedis ? "redis://"
                       : url.tls                      ? "amqps://"
                                                      : "amqp://";
  const bool v6 = url.host.find(':') != std::string::npos;
  return scheme + (v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

}  // namespace tutti::broker
