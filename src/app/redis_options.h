// What the settings say of a Redis that servers share.
#pragma once

#include <optional>
#include <string>

#include "app/settings.h"
#include "base/status.h"
#include "redis/connection.h"

namespace tutti::app {

// Of `PREFIX.redis` and `PREFIX.redis_password_file`; nothing where there is none. The password is
// read here. What is said would cross a network in the clear, so it must be a loopback address.
// Errors: invalid_value.
Result<std::optional<redis::ConnectionOptions>> RedisFrom(const Settings& settings,
                                                          const std::string& prefix);

}  // namespace tutti::app
