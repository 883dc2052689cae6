// The address of a message broker, parsed from a URL. Pure functions over plain values; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::broker {

enum class BrokerKind : uint8_t { kRabbitMq, kRedis };

struct BrokerUrl {
  BrokerKind kind = BrokerKind::kRabbitMq;
  bool tls = false;
  std::string user;  // empty: guest with RabbitMQ, none with Redis
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 5672;   // 1 to 65,535
  // The virtual host of RabbitMQ, or the database number of Redis.
  std::string space = "/";
  friend bool operator==(const BrokerUrl&, const BrokerUrl&) = default;
};

// Parses `amqp://[USER@]HOST[:PORT][/VHOST]` (default port 5672; RabbitMQ's URI specification,
// escapes decoded), `amqps://` (TLS, 5671), or a Redis URL as redis::ParseRedisUrl() does. A
// password in the URL is refused, because it would be visible in the process's arguments. Error:
// invalid_value; the message names the accepted form and never contains what may be a password.
Result<BrokerUrl> ParseBrokerUrl(std::string_view url);

// "amqp://HOST:PORT", for logs; without the user's name.
std::string RedactedUrl(const BrokerUrl& url);

}  // namespace tutti::broker
