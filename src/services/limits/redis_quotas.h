// RedisQuotas: quotas that several servers share, as numbers in a Redis. One key each, of two
// numbers: how much is missing of it, and when that was (by Redis' clock, so that those of the
// servers may differ).
//
// One thread, which may wait: 50 ms for the answers to one call, a second where it has to connect.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "redis/connection.h"
#include "services/limits/shared_quotas.h"

namespace tutti::limits {

class RedisQuotas final : public SharedQuotas {
 public:
  explicit RedisQuotas(redis::ConnectionOptions options) : options_(std::move(options)) {}

  // Errors: those of redis::Connection.
  Status Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) override;

 private:
  Status Connect();
  Status Ask(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants);

  const redis::ConnectionOptions options_;
  std::unique_ptr<redis::Connection> connection_;  // null: none, or it has failed
  std::string script_;                             // as Redis knows it, on that connection
};

}  // namespace tutti::limits
