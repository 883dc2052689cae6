// Limits that several servers share: their store in Redis, and the thread that exchanges with it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "base/status.h"
#include "redis/connection.h"
#include "redis/script.h"
#include "services/limits/lease.h"
#include "services/limits/limiter.h"

namespace tutti::limits {

// RedisQuotas: SharedQuotas in Redis. Each quota has one key with two numbers: the used units, and
// the time of that value by Redis' clock, so that the clocks of the servers may differ.
//
// For use by one thread. Calls block for at most 50 ms, or a second if they must connect.
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

// SharingThread: runs Limiter::Exchange() with the store of shared quotas on its own thread. The
// limiter must outlive it.
class SharingThread {
 public:
  // `changed` is called on that thread with the error when the store becomes unreachable, and with
  // OK when it is reachable again; may be empty. Errors: overloaded (a thread cannot be started).
  static Result<std::unique_ptr<SharingThread>> Start(
      Limiter* limiter, std::function<void(const Status&)> changed = nullptr);
  ~SharingThread();

 private:
  explicit SharingThread(Limiter* limiter) : limiter_(*limiter) {}
  Limiter& limiter_;
  std::jthread thread_;
};

}  // namespace tutti::limits
