// Limiter: rate limits and quotas of all tenants, keys, models, sessions and addresses.
//
// A request makes one reservation before any work and settles it at its end, atomically for all of
// its subjects. Reserve() holds the locks of all subjects' shards while it checks them (in order of
// the shards, which prevents deadlocks) and takes nothing unless all have room. Shards keep one
// tenant's requests from waiting for another's. Settling takes one lock after the other.
//
// Bounded: idle subjects (subject_state.h) may be forgotten, least recently used first; others
// never are. If a shard is full of subjects that are not idle, a new subject is refused
// (overloaded).
//
// Limits shared with other servers (SharedQuotas) are leased: Reserve() spends leased units, and
// Exchange() renews leases on a thread of its own, so that no reservation blocks for it.
//
// Any thread. Must outlive its reservations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/limits/lease.h"
#include "services/limits/rules.h"
#include "services/limits/subject_state.h"

namespace tutti::limits {

// An entity with limits: tenant, key, model or session. A request has at most one subject of each
// kind. `name` is unique within the kind; for limits within one tenant (a model, a session) it
// contains the tenant.
struct Subject {
  SubjectKind kind = SubjectKind::kTenant;
  std::string_view name;  // at most kMaxNameBytes
  Rules rules;            // may differ from call to call
  // Tenant, if the limits are shared with other servers; empty: limits of this server only.
  std::string_view tenant = {};
};
inline constexpr size_t kMaxNameBytes = 512;

class Limiter;

// The part of its subjects' limits that a request holds. Destroying a reservation without Settle()
// returns all of it, and the request is not counted. Movable; one thread at a time.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  explicit operator bool() const { return limiter_ != nullptr; }
  // Called when the request has left the queue; returns its queued tokens.
  void LeaveQueue();
  // Ends the reservation of a request that used `tokens` tokens, which may be 0; the request stays
  // counted. Unused tokens are returned; excess tokens become a debt of the subjects.
  void Settle(int64_t tokens);

 private:
  friend class Limiter;
  struct Held {
    uint32_t shard = 0;
    void* entry = nullptr;  // Limiter::Entry, which lives while it is held
  };
  void Release();

  Limiter* limiter_ = nullptr;
  Taken taken_;
  std::array<Held, kSubjectKinds> held_{};
  int subjects_ = 0;
};

class Limiter {
 public:
  struct Options {
    size_t max_subjects = 65'536;  // about 400 bytes each, and their names
    size_t shards = 16;            // 1..64
    // Null: nothing is shared. Outlives the limiter.
    SharedQuotas* shared = nullptr;
    // Behaviour while the shared store is unreachable (subject_state.h).
    bool requests_open = true, tokens_open = false;
  };
  // `clock` outlives the limiter; `unix_s` returns the wall time in seconds since 1970.
  Limiter(const Options& options, const Clock* clock, std::function<int64_t()> unix_s);
  ~Limiter();
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  // Reserves `estimate` for all subjects or none. `view` (may be null) is always set: to the
  // remaining limits after this call, and to the limit that refused it. Errors: those of
  // ToStatus(Refusal), for the limit with the longest wait; overloaded (no room for a subject);
  // invalid_value (name too long).
  Result<Reservation> Reserve(std::span<const Subject> subjects, const Estimate& estimate,
                              RateLimitView* view = nullptr);

  // What is left of each limit of a subject now. Reserves nothing, and remembers no new subject.
  std::vector<KindView> Look(const Subject& subject);

  // A subject with limits.
  struct Usage {
    SubjectKind kind = SubjectKind::kTenant;
    std::string name;
    std::vector<KindView> limits;
    double used = 0;  // share of its tightest limit that is used, 0 to 1
  };
  // The subjects that are nearest to a limit, first the nearest, at most `max`. It looks at the
  // subjects used last, kListed in each shard, so that no shard is locked for long.
  static constexpr size_t kListed = 256;
  std::vector<Usage> ListUsage(size_t max);

  // Counts usage from before the start of this process (usage/ledger_rows.h) toward today's quota.
  // Errors: as Reserve.
  Status AddToDay(const Subject& subject, int64_t tokens);

  // Forgets all idle subjects; returns their number.
  size_t DropIdle();

  // Sends all pending requests to the store of shared quotas; `idle`: also returns unused units.
  // Without requests it only checks the connection. For use by one thread; blocks as
  // SharedQuotas::Exchange does. Errors: the store is unreachable.
  Status Exchange(bool idle);
  // Waits until quotas must be exchanged, at most `most`.
  void WaitForWants(Duration most);
  void StopWaiting();  // ends WaitForWants() now and from now on

  struct SharingStats {
    bool up = false;  // the shared store is reachable
    uint64_t exchanges = 0, failures = 0;
  };
  SharingStats sharing() const;
  bool shares() const { return options_.shared != nullptr; }

  size_t subjects() const;  // known now
  uint64_t refusals(LimitKind kind) const {
    return refusals_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  friend class Reservation;
  struct Entry;
  struct Shard;
  class Locks;
  struct Lookup;

  // Within Locks, which the analysis cannot follow.
  Status HoldAll(std::span<const Subject> subjects, const Moment& moment,
                 Lookup* lookup) NO_THREAD_SAFETY_ANALYSIS;
  size_t ShardOf(std::string_view key) const;
  // Queues an entry whose lock is held for the shared store, if it has something to exchange.
  bool NoteWants(Entry* entry, size_t shard, const Moment& moment) NO_THREAD_SAFETY_ANALYSIS;
  Sharing SharingNow() const {
    return {up_.load(std::memory_order_acquire), options_.requests_open, options_.tokens_open};
  }

  // Called with the locks of all shards of the request, so that its subjects see one time.
  Moment Now();
  void Settle(Reservation& reservation, bool undo, int64_t used);

  const Options options_;
  const size_t max_in_shard_;
  const Clock& clock_;
  const std::function<int64_t()> unix_s_;
  std::atomic<int64_t> latest_day_{0};  // if the wall clock is set back, this day continues
  std::vector<std::unique_ptr<Shard>> shards_;
  std::array<std::atomic<uint64_t>, kLimitKinds> refusals_{};

  struct Wanting {
    Entry* entry = nullptr;  // held
    size_t shard = 0;
  };
  std::atomic<bool> up_{false};
  std::atomic<uint64_t> exchanges_{0}, exchange_failures_{0};
  Mutex wants_mutex_;  // taken within a shard's
  CondVar wants_changed_;
  std::vector<Wanting> wants_ GUARDED_BY(wants_mutex_);  // each entry once
  bool stopped_ GUARDED_BY(wants_mutex_) = false;
};

}  // namespace tutti::limits
