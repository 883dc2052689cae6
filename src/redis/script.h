// Script: a Lua script that Redis runs as one step, sent whole only where Redis does not know it.
// Immutable; any thread.
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

  // On the thread that owns `connection`. Errors: as Connection::Call.
  Result<Reply> Call(Connection& connection, std::span<const std::string_view> keys,
                     std::span<const std::string_view> arguments, TimePoint until) const;

  // Where several are on their way at once: sends one. Redis may not know it by its name
  // (IsUnknown() of its reply, and it has done nothing): then it is sent again, whole. Errors: as
  // Connection::Send.
  enum class As : uint8_t { kName, kWhole };
  Status Send(Connection& connection, As as, std::span<const std::string_view> keys,
              std::span<const std::string_view> arguments, TimePoint until) const;
  static bool IsUnknown(const Reply& reply);

 private:
  const std::string text_, sha1_;
};

}  // namespace tutti::redis
