// The address of a Redis server, parsed from a URL. Pure functions over plain values; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::redis {

struct RedisUrl {
  std::string user;  // empty: Redis' user "default"
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 6379;   // 1 to 65,535
  int database = 0;
  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

// Parses `redis://[USER@]HOST[:PORT][/DATABASE]`. A password in the URL is refused, because it
// would be visible in the process's arguments. Error: invalid_value; the message names the accepted
// form and never contains what may be a password.
Result<RedisUrl> ParseRedisUrl(std::string_view url);

// "redis://HOST:PORT/DATABASE", for logs; without the user's name.
std::string RedactedUrl(const RedisUrl& url);

}  // namespace tutti::redis
