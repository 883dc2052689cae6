// Script: a Lua script that Redis runs atomically. Its text is sent only if Redis does not know its
// hash. Immutable; any thread.
#pragma once

#include <cstdint>
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

  // Runs the script, on the thread that owns `connection`. Errors: those of Connection::Call.
  Result<Reply> Call(Connection& connection, std::span<const std::string_view> keys,
                     std::span<const std::string_view> arguments, TimePoint until) const;

  // Sends one call, for pipelining. If Redis does not know the script by its name (IsUnknown() of
  // the reply; nothing was executed), it must be sent again, whole. Errors: those of
  // Connection::Send.
  enum class As : uint8_t { kName, kWhole };
  Status Send(Connection& connection, As as, std::span<const std::string_view> keys,
              std::span<const std::string_view> arguments, TimePoint until) const;
  static bool IsUnknown(const Reply& reply);

 private:
  const std::string text_, sha1_;
};

}  // namespace tutti::redis
