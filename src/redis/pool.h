// Pool: a few connections to one Redis, lent one at a time.
//
// A connection on which a reply may still come is thrown away and never lent again: its borrower
// was cancelled, gave up or met an error, and the next one would be handed the answer to a
// stranger's question. Nothing is connected by who borrows: Tend() does that, on a thread that may
// wait. Behind a breaker: when Redis fails, nobody waits for it but that thread.
//
// Any thread. Outlives its loans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "redis/breaker.h"
#include "redis/connection.h"

namespace tutti::redis {

class Pool {
 public:
  struct Options {
    ConnectionOptions connection;
    size_t connections = 4;
    Breaker::Options breaker;
    // Called, by whoever gave one back that is no good, when there is something to tend to; any
    // thread, not under a lock. May be empty.
    std::function<void()> wanted;
  };
  // `clock` outlives it: of the breaker; waits for Redis go by the steady clock.
  Pool(Options options, const Clock* clock);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A connection for one thread's use, given back by the destructor: to be lent again if it is
  // clean, else closed. A broken one counts as a failure of Redis.
  class Loan {
   public:
    Loan(Loan&& other) noexcept = default;
    ~Loan();
    Loan& operator=(Loan&&) = delete;
    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }

   private:
    friend class Pool;
    Loan(Pool* pool, std::unique_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
  };
  // Waits no longer than `until` for one to be given back. Errors: redis_unreachable (the breaker
  // is open, at once), redis_timeout (all are lent, or none is there yet).
  Result<Loan> Take(TimePoint until);

  // Connects what is missing, and tries where the breaker is open. By one thread, now and then and
  // when `wanted` says so; it waits as Connection::Open does.
  void Tend();

  struct Stats {
    size_t idle = 0, lent = 0;
    uint64_t thrown_away = 0;  // with a reply on its way, or broken
    uint64_t opened = 0;       // the breaker, times
    bool up = false;           // the breaker is closed, and something is connected
  };
  Stats stats() const;
  bool up() const { return stats().up; }

 private:
  void GiveBack(std::unique_ptr<Connection> connection);

  const Options options_;
  Breaker breaker_;
  mutable Mutex mutex_;
  CondVar returned_;
  std::vector<std::unique_ptr<Connection>> idle_ GUARDED_BY(mutex_);
  size_t lent_ GUARDED_BY(mutex_) = 0;
  uint64_t thrown_away_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::redis
