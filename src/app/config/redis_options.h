// Connection options of a shared Redis, from the settings.
#pragma once

#include <optional>
#include <string>

#include "app/config/settings.h"
#include "base/status.h"
#include "redis/connection.h"

namespace tutti::app {

// Connection options from the settings `PREFIX.redis` and `PREFIX.redis_password_file`; nullopt if
// neither is set. Reads the password file. The address must be a loopback address, because the
// connection is not encrypted. Errors: invalid_value.
Result<std::optional<redis::ConnectionOptions>> RedisFrom(const Settings& settings,
                                                          const std::string& prefix);

}  // namespace tutti::app
