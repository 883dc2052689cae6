// Limiter: what every tenant, key, model, session and address may use, asked once for a request.
//
// A request is reserved before any work on it and settled at its end, for all of its subjects or
// for none: while they are looked at, the locks of all of them are held (in the order of their
// shards, so that no two requests wait for each other), and nothing is taken unless all have room.
// Subjects are spread over shards because those of one tenant would else wait for another's;
// settling needs no such picture and takes one lock after the other.
//
// Bounded: a subject at rest (subject_state.h) may be forgotten, the least recently used first; one
// that is not never is. Where a shard is full of those, a new subject is refused: overloaded.
//
// Limits that several servers share (SharedQuotas) are leased: what is at hand is spent here, and
// Exchange(), on a thread of its own, speaks with the others. Nobody who reserves waits for that.
//
// Any thread. Outlives its reservations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/limits/rate_limit_view.h"
#include "services/limits/rules.h"
#include "services/limits/shared_quotas.h"
#include "services/limits/subject_state.h"

namespace tutti::limits {

// Of a request at most one of each kind. `name` tells it from others of its kind: where a limit is
// one tenant's alone (its share of a model, a session's id), the tenant is part of it.
struct Subject {
  SubjectKind kind = SubjectKind::kTenant;
  std::string_view name;  // at most kMostNameBytes
  Rules rules;            // that CheckRules accepts; they may differ from call to call
  // Whose it is, where its limits are shared with other servers; empty: they are this one's alone.
  std::string_view tenant = {};
};
inline constexpr size_t kMostNameBytes = 512;

class Limiter;

// What a request holds of its subjects' limits. Dropped, it never was: nothing stays taken, not
// even the request. Movable; one thread at a time.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  explicit operator bool() const { return limiter_ != nullptr; }
  // The request waits no longer: its queued tokens are given back.
  void LeaveQueue();
  // The request is over and has used so many tokens, 0 included; it stays counted as a request.
  // Less than was reserved is given back, more is a debt of its subjects. Ends the reservation.
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
    size_t most_subjects = 65'536;  // known at a time: about 400 bytes each, and their names
    size_t shards = 16;             // 1..64
    // Null: nothing is shared. Outlives the limiter.
    SharedQuotas* shared = nullptr;
    // What holds while the others cannot be reached (subject_state.h).
    bool requests_open = true, tokens_open = false;
  };
  // `clock` outlives the limiter; `unix_s` tells the wall time in seconds since 1970.
  Limiter(const Options& options, const Clock* clock, std::function<int64_t()> unix_s);
  ~Limiter();
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  // `view`, where given, is set in any case to what is left after this call, and to the limit that
  // was in the way. Errors: those of ToStatus(Refusal), of several limits in the way that of the
  // longest wait; overloaded (no room for a subject); invalid_value (a name too long).
  Result<Reservation> Reserve(std::span<const Subject> subjects, const Estimate& estimate,
                              RateLimitView* view = nullptr);

  // Counts to today's quota what was used before this process began (usage/ledger_rows.h). Errors:
  // as Reserve.
  Status AddToDay(const Subject& subject, int64_t tokens);

  // Forgets all that are at rest; how many.
  size_t DropIdle();

  // Speaks with the servers that share limits, about all that is to be said now; `idle`: also what
  // lies unused is given back. By one thread, which waits as SharedQuotas::Exchange does. Without
  // anything to say it finds out whether they can be reached. Error: they cannot.
  Status Exchange(bool idle);
  // Until there is something to be said, or so long.
  void WaitForWants(Duration most);
  void StopWaiting();  // now and for ever

  struct SharingStats {
    bool up = false;  // the others can be reached
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
  // Notes that there is something to be said of an entry whose lock is held.
  bool NoteWants(Entry* entry, size_t shard, const Moment& moment) NO_THREAD_SAFETY_ANALYSIS;
  Sharing SharingNow() const {
    return {up_.load(std::memory_order_acquire), options_.requests_open, options_.tokens_open};
  }

  // With the locks of all shards that the request concerns held, after which time stands still for
  // them.
  Moment Now();
  void Settle(Reservation& reservation, bool undo, int64_t used);

  const Options options_;
  const size_t most_in_shard_;
  const Clock& clock_;
  const std::function<int64_t()> unix_s_;
  std::atomic<int64_t> latest_day_{0};  // a wall clock that is set back stays on it
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
