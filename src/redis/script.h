// Script: a Lua script that Redis runs as one step, sent whole only where Redis does not know it.
// Immutable; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "redis/connection.h"

namespace tutti::redis {

class Script {
 public:
  explicit Script(std::string text);

  // On the thread that owns `connection`. Errors: as Connection::Call.
  Result<Reply> Call(Connection& connection, std::span<const std::string_view> keys,
                     std::span<const std::string_view> arguments, TimePoint until) const;

 private:
  const std::string text_, sha1_;
};

}  // namespace tutti::redis
