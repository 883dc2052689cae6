// Lease: one server's part of a quota that several servers share. Pure; one thread at a time.
//
// Units are leased a chunk at a time, behind the request's back, and spent here without asking
// anybody. Where none are at hand a request may run on credit, for as much as a chunk, as long as
// the quota is not known to be used up; what was spent so is told at once, and counts as taken
// there or not. So of all servers together no more passes than the quota and a chunk of each, and
// no more is left lying than a chunk of each. A request of more than a chunk passes where nothing
// of ours is untold and the quota, as it was last heard of, has so much.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "services/limits/shared_quotas.h"

namespace tutti::limits {

struct Quota {
  int64_t limit = 1;
  Duration period{0};  // as QuotaAsk's
};

// What is leased at a time: 2 % of the limit, at least 8 units where these are no more than a
// quarter of it. Twice as much and more (5 %) while requests meet an empty lease.
int64_t ChunkOf(int64_t limit);

class Lease {
 public:
  // Until `units` may be taken by what is known: 0 at once. `next` is the wait where the quota does
  // not fill (until the next day).
  Duration RetryAfter(const Quota& quota, int64_t units, TimePoint now, Duration next) const;
  // Likewise where the others cannot be reached and nothing may be spent without them.
  bool AtHand(int64_t units) const { return units <= balance_; }
  void Spend(int64_t units, TimePoint now);
  void GiveBack(int64_t units) { balance_ += units; }
  void Missed(int64_t units);  // a request met an empty lease

  // Units that may be had, by what is known; 0..limit.
  int64_t Remaining(const Quota& quota, TimePoint now) const;

  // Whether the others are to be asked now.
  bool Wants(const Quota& quota, TimePoint now) const;
  // Whether there is something to be given back that nobody here has needed for a while.
  bool Idle(TimePoint now) const;
  // What to ask, once Wants() or Idle(); nothing more until one of the next two.
  struct Ask {
    int64_t charge = 0, want = 0;
    uint32_t round = 0;
  };
  Ask Begin(const Quota& quota, TimePoint now);
  void Granted(const Ask& ask, const QuotaGrant& grant, TimePoint now);
  void Failed(const Quota& quota, const Ask& ask, TimePoint now);

  // Another day: nothing of before counts.
  void Reset();
  bool AtRest() const { return balance_ == 0 && !asking_; }

 private:
  // Of the quota, as it was last heard of and has filled since; unknown: all of it.
  int64_t Left(const Quota& quota, TimePoint now) const;

  int64_t balance_ = 0;  // leased and not spent; below 0: spent and not told
  int64_t telling_ = 0;  // spent, and being told
  int64_t missed_ = 0;   // units that were asked for in vain since the last answer
  int64_t heard_ = 0;    // what was left of the quota
  TimePoint heard_at_{}, spent_at_{}, leased_at_{};
  uint32_t round_ = 0;
  bool asking_ = false, heard_any_ = false;
};

}  // namespace tutti::limits
