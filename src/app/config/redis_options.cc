#include "app/config/redis_options.h"

#include <utility>

#include "app/config/secret_file.h"
#include "base/loopback.h"

namespace tutti::app {

Result<std::optional<redis::ConnectionOptions>> RedisFrom(const Settings& settings,
                                                          const std::string& prefix) {
  const std::string address = prefix + ".redis", password = address + "_password_file";
  const auto bad = [](const std::string& option, const std::string& why) {
    return InvalidArgument("invalid_value", why).WithParam(option);
  };
  if (!settings.IsSet(address)) {
    if (!settings.IsSet(password)) return std::optional<redis::ConnectionOptions>();
    return bad(password, password + " means nothing without " + address);
  }
  redis::ConnectionOptions options;
  Result<redis::RedisUrl> url = redis::ParseRedisUrl(settings.Text(address));
  if (!url.ok()) return std::move(url).status().WithContext(address).WithParam(address);
  options.url = *std::move(url);
  if (!IsLoopback(options.url.host)) {
    return bad(address, "traffic to the Redis server at " + options.url.host +
                            " would cross a network in the clear: let " + address +
                            " name the near end of a TLS tunnel on this machine");
  }
  if (settings.IsSet(password)) {
    ASSIGN_OR_RETURN(options.password,
                     ReadOptionFile(password.c_str(), settings.Text(password), true));
    if (options.password.empty()) return bad(password, password + " holds no password");
  }
  return std::optional(std::move(options));
}

}  // namespace tutti::app
