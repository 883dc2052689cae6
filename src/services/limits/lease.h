// Lease: one server's part of a quota that several servers share. Pure; one thread at a time.
// SharedQuotas: interface of the store of these quotas (RedisQuotas).
//
// A background thread leases units from the shared store in chunks, and requests spend them without
// a round trip. Without leased units a request may run on credit of up to one chunk, unless the
// quota is known to be exhausted; the debt is reported to the store at once. All servers together
// therefore exceed the quota by at most one chunk each, and leave at most one chunk each unused. A
// request larger than a chunk passes if no debt is unreported and the last known remainder of the
// quota suffices.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::limits {

// One server's request for one quota: units spent since the last request, and units to lease.
struct QuotaAsk {
  std::string key;     // "{TENANT}:...", the same on all servers
  int64_t limit = 0;   // units, and the most there are at once; >= 1
  Duration period{0};  // in which an empty quota fills evenly; 0: never (the key names the day)
  int64_t charge = 0;  // spent beyond what was leased: taken, there or not; below 0: given back
  int64_t want = 0;    // to be leased, as many of them as there are
};

struct QuotaGrant {
  int64_t leased = 0;     // 0..want
  int64_t remaining = 0;  // of all servers' after that; below 0: a debt
};

class SharedQuotas {
 public:
  virtual ~SharedQuotas() = default;
  // Returns one grant per request, in order; without requests it only checks the connection. For
  // use by one thread; blocks for at most 50 ms while connected. After an error it is unknown which
  // requests were counted.
  virtual Status Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) = 0;
};

struct Quota {
  int64_t limit = 1;
  Duration period{0};  // as QuotaAsk's
};

// Size of a chunk: 2 % of the limit, but at least 8 units if these are at most a quarter of it.
// Grows to 5 % while requests meet an empty lease.
int64_t ChunkOf(int64_t limit);

class Lease {
 public:
  // Estimated wait until `units` can be taken; 0: now. `next` is the wait for a quota that does not
  // refill continuously (until the next day).
  Duration RetryAfter(const Quota& quota, int64_t units, TimePoint now, Duration next) const;
  // Whether `units` can be taken from the lease alone, for when the shared store is unreachable and
  // credit is not allowed.
  bool AtHand(int64_t units) const { return units <= balance_; }
  void Spend(int64_t units, TimePoint now);
  void GiveBack(int64_t units) { balance_ += units; }
  void Missed(int64_t units);  // a request met an empty lease

  // Estimate of the units that are left, 0..limit.
  int64_t Remaining(const Quota& quota, TimePoint now) const;

  // Whether the shared store should be asked now.
  bool Wants(const Quota& quota, TimePoint now) const;
  // Whether leased units have been unused for a while and should be returned.
  bool Idle(TimePoint now) const;
  // The request to the shared store when Wants() or Idle() is true. Granted() or Failed() must
  // follow before the next Begin().
  struct Ask {
    int64_t charge = 0, want = 0;
    uint32_t round = 0;
  };
  Ask Begin(const Quota& quota, TimePoint now);
  void Granted(const Ask& ask, const QuotaGrant& grant, TimePoint now);
  void Failed(const Quota& quota, const Ask& ask, TimePoint now);

  // Called when a new day begins: forgets all of the previous one.
  void Reset();
  bool AtRest() const { return balance_ == 0 && !asking_; }

 private:
  // Remainder of the shared quota: the last known value plus what has refilled since. The whole
  // limit if no value is known.
  int64_t Left(const Quota& quota, TimePoint now) const;

  int64_t balance_ = 0;  // leased and not spent; below 0: spent and not reported
  int64_t telling_ = 0;  // spent, and being reported
  int64_t missed_ = 0;   // units refused since the last answer
  int64_t heard_ = 0;    // last known remainder of the quota
  TimePoint heard_at_{}, spent_at_{}, leased_at_{};
  uint32_t round_ = 0;
  bool asking_ = false, heard_any_ = false;
};

}  // namespace tutti::limits
