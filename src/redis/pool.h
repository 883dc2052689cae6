// Pool: a few connections to one Redis server, each lent to one borrower at a time.
//
// A connection with an outstanding reply is closed and never lent again: its borrower was
// cancelled, timed out or met an error, and the next borrower would read a reply to another's
// command. Borrowers never connect; Tend() does, on a thread that may block. A circuit breaker
// protects the pool: while Redis fails, only that thread waits for it.
//
// Any thread. Outlives its loans.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "redis/connection.h"

namespace tutti::redis {

// A circuit breaker. While closed, it allows all calls; after `failures` failures in a row it opens
// and allows none; after a delay it allows one trial call (half open), whose success closes the
// breaker and whose failure keeps it open for twice as long. Any thread.
class Breaker {
 public:
  struct Options {
    int failures = 3;
    Duration first_wait = std::chrono::milliseconds(250);
    Duration longest_wait = std::chrono::seconds(8);
  };
  // `clock` outlives the breaker.
  Breaker(const Options& options, const Clock* clock) : options_(options), clock_(*clock) {}

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // True for one caller when the breaker is open and the delay is over; that caller makes the trial
  // call and reports its outcome.
  bool MayTry();
  void Succeeded();
  void Failed();
  uint64_t opened() const { return opened_.load(std::memory_order_relaxed); }  // times

 private:
  const Options options_;
  const Clock& clock_;
  std::atomic<bool> closed_{true};
  std::atomic<uint64_t> opened_{0};
  Mutex mutex_;
  int in_a_row_ GUARDED_BY(mutex_) = 0;
  Duration wait_ GUARDED_BY(mutex_){0};
  TimePoint next_ GUARDED_BY(mutex_){};  // try
  bool trying_ GUARDED_BY(mutex_) = false;
};

class Pool {
 public:
  struct Options {
    ConnectionOptions connection;
    size_t connections = 4;
    Breaker::Options breaker;
    // Called when Tend() has something to do, by the thread that returned a broken connection. Any
    // thread, without a lock held. May be empty.
    std::function<void()> wanted;
  };
  // `clock` is the breaker's and outlives the pool; waits for Redis use the steady clock.
  Pool(Options options, const Clock* clock);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A connection for the use of one thread. The destructor returns it to the pool, which lends it
  // again if it is clean and closes it otherwise. A broken connection counts as a failure of Redis.
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
  // Waits until `until` for a connection. Errors: redis_unreachable (at once, while the breaker is
  // open), redis_timeout (all are lent, or none is connected yet).
  Result<Loan> Take(TimePoint until);

  // Opens missing connections, and makes the trial call while the breaker is open. Called by one
  // thread, periodically and after `wanted`; blocks as Connection::Open does.
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
