// WaitingRoom: the messages that were taken and not yet answered, of all sessions together: how
// many there may be, what became of them, and how long it took.
//
// Thread-safe; nothing blocks. Outlives its tickets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "doors/mqtt/profile/claimant.h"

namespace tutti::mqtt::profile {

struct Statistics {
  uint64_t processed = 0;  // messages that were answered
  uint64_t errors = 0;     // those that ended in an error, or were wrong
  uint64_t rejected = 0;   // for a limit or a lack of room
  size_t waiting = 0;
  Duration total{0};    // from taken to answered, of the processed ones
  Duration average{0};  // of one of them
};

class WaitingRoom {
 public:
  struct Limits {
    size_t all = 1000;
    size_t per_user = 200;
    size_t per_project = 750;  // where its users are not known: a quarter is left for others
  };
  enum class Outcome { kProcessed, kError, kRejected, kLeft };

  // The place of one message. Movable; one thread at a time.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)),
          claimant_(std::move(other.claimant_)),
          entered_(other.entered_) {}
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket() { Leave(Outcome::kLeft, entered_); }
    void Leave(Outcome outcome, TimePoint now);
    explicit operator bool() const { return room_ != nullptr; }

   private:
    friend class WaitingRoom;
    WaitingRoom* room_ = nullptr;
    Claimant claimant_;
    TimePoint entered_;
  };

  explicit WaitingRoom(const Limits& limits)
      : limits_(limits), claimants_({limits.per_user, limits.per_project}) {}

  // Errors: overloaded, tenant_concurrency.
  Result<Ticket> Enter(Claimant claimant, TimePoint now);
  // Of a message that never entered.
  void Count(Outcome outcome);

  Statistics statistics() const;
  // Crowded from 70 % on, until it is less again: +1 when it has become so since the last call, -1
  // when it no longer is, else 0.
  int CrowdingChange();

 private:
  void Leave(const Ticket& ticket, Outcome outcome, TimePoint now);
  void CountLocked(Outcome outcome) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  size_t waiting_ GUARDED_BY(mutex_) = 0;
  ClaimantCounts claimants_ GUARDED_BY(mutex_);
  uint64_t processed_ GUARDED_BY(mutex_) = 0, errors_ GUARDED_BY(mutex_) = 0,
                      rejected_ GUARDED_BY(mutex_) = 0;
  Duration total_ GUARDED_BY(mutex_){0};
  bool crowded_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::profile
