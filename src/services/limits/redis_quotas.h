// RedisQuotas: SharedQuotas in Redis. Each quota has one key with two numbers: the used units, and
// the time of that value by Redis' clock, so that the clocks of the servers may differ.
//
// For use by one thread. Calls block for at most 50 ms, or a second if they must connect.
#pragma once

#include <memory>
#include <span>

#include "redis/connection.h"
#include "redis/script.h"
#include "services/limits/shared_quotas.h"

namespace tutti::limits {

class RedisQuotas final : public SharedQuotas {
 public:
  explicit RedisQuotas(redis::ConnectionOptions options);

  // Errors: those of redis::Connection.
  Status Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) override;

 private:
  Status AskAll(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants);
  Status Send(const QuotaAsk& ask, redis::Script::As as, TimePoint until);
  static Status Take(const redis::Reply& reply, QuotaGrant* grant);

  const redis::ConnectionOptions options_;
  const redis::Script bucket_;
  std::unique_ptr<redis::Connection> connection_;  // null: none, or it has failed
};

}  // namespace tutti::limits
