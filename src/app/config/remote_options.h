// Options of the connections to other servers, from the settings: the broker between a frontend and
// workers on other machines ([queue]), and a shared Redis.
#pragma once

#include <optional>
#include <string>

#include "app/config/settings.h"
#include "base/status.h"
#include "broker/broker.h"
#include "redis/connection.h"

namespace tutti::app {

struct BrokerOptions {
  broker::Access access;
  std::string name;
};

// Returns nullopt if broker.backend is store. Reads the password file. Errors: invalid_value, for
// the option at fault.
Result<std::optional<BrokerOptions>> BrokerFromSettings(const Settings& settings);

// Id of a frontend, derived from the host name and the store's folder, so that it survives a
// restart. An empty `folder` (store in memory) gives a random id for this process.
std::string FrontId(const std::string& folder);

// Connection options from the settings `PREFIX.redis` and `PREFIX.redis_password_file`; nullopt if
// neither is set. Reads the password file. The address must be a loopback address, because the
// connection is not encrypted. Errors: invalid_value.
Result<std::optional<redis::ConnectionOptions>> RedisFrom(const Settings& settings,
                                                          const std::string& prefix);

}  // namespace tutti::app
