// RedisQuotas: quotas that several servers share, as numbers in a Redis. One key each, of two
// numbers: how much is missing of it, and when that was (by Redis' clock, so that those of the
// servers may differ).
//
// One thread, which may wait: 50 ms for the answers to one call, a second where it has to connect.
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
