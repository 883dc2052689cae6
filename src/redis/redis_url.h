// Where a Redis is, as a URL tells. Pure functions over plain values; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::redis {

struct RedisUrl {
  std::string user;  // empty: nobody in particular ("default")
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 6379;   // 1 to 65,535
  int database = 0;
  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

// Of `redis://[USER@]HOST[:PORT][/DATABASE]`. A password would show in the process's arguments: it
// is refused. Error: invalid_value, saying what to write instead; never with what may be a
// password.
Result<RedisUrl> ParseRedisUrl(std::string_view url);

// "redis://HOST:PORT/DATABASE", for logs: nobody's name.
std::string ShownUrl(const RedisUrl& url);

}  // namespace tutti::redis
