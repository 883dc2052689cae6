// Where a message broker is, as a URL tells. Pure functions over plain values; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::broker {

enum class BrokerKind : uint8_t { kRabbitMq, kRedis };

struct BrokerUrl {
  BrokerKind kind = BrokerKind::kRabbitMq;
  bool tls = false;
  std::string user;  // empty: guest with RabbitMQ, nobody with Redis
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 5672;   // 1 to 65,535
  // Of RabbitMQ the virtual host, of Redis the number of the database.
  std::string space = "/";
  friend bool operator==(const BrokerUrl&, const BrokerUrl&) = default;
};

// Of `amqp://[USER@]HOST[:PORT][/VHOST]` (5672; RabbitMQ's URI specification, escapes decoded),
// `amqps://` (TLS, 5671), or as redis::ParseRedisUrl(). A password would show
// in the process's arguments: it is refused. Error: invalid_value, saying what to write instead;
// never with what may be a password.
Result<BrokerUrl> ParseBrokerUrl(std::string_view url);

// "amqp://HOST:PORT", for logs: nobody's name.
std::string ShownUrl(const BrokerUrl& url);

}  // namespace tutti::broker
