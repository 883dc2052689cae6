// SubjectState: usage of each limit of one subject. Pure arithmetic; one thread at a time (guarded
// by the limiter's locks).
//
// A subject at rest (all buckets full, nothing in flight, nothing used today) behaves like a new
// one, so the limiter may forget it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "services/limits/lease.h"
#include "services/limits/rate.h"
#include "services/limits/rules.h"

namespace tutti::limits {

// Estimated usage of a request before it runs; both in [0, kMaxUnits].
struct Estimate {
  int64_t tokens = 0;         // uncached prompt and expected output
  int64_t queued_tokens = 0;  // of the prompt, while it waits for its first turn
};

// A moment by two clocks: the steady clock for waits, the wall clock for daily quotas. For one
// subject neither `now` nor the day may go back.
struct Moment {
  TimePoint now{};
  int64_t unix_s = 0;  // wall time, seconds since 1970
};

// Units taken for one request from each of its subjects.
struct Taken {
  TimePoint at{};
  int64_t day = 0;  // since 1970, by UTC
  int64_t tokens = 0;
  int64_t queued_tokens = 0;  // those not yet given back
  // Whether units of shared limits were taken: requests; tokens.
  bool shared_requests = false, shared_tokens = false;
};

// State of the connection to the store of shared quotas.
struct Sharing {
  bool up = false;  // they can be reached
  // Behaviour while the store is unreachable. true: this server counts locally; false: only leased
  // units pass.
  bool requests_open = true, tokens_open = false;
};

// A request of a subject to the shared store.
struct SharedAsk {
  LimitKind limit = LimitKind::kRequests;
  QuotaAsk quota;
  Lease::Ask lease;
};

class SubjectState {
 public:
  // Shares the limits of requests, tokens and daily tokens with other servers, under `key`.
  void Share(std::string key);
  bool shared() const { return shared_ != nullptr; }

  // Changes the rules; units that are taken stay taken.
  void SetRules(const Rules& rules, TimePoint now);

  // Returns why `estimate` cannot be reserved now; of several reasons the one that lasts longest.
  // The caller sets Refusal::subject.
  std::optional<Refusal> Check(const Estimate& estimate, const Moment& moment,
                               const Sharing& sharing = {}) const;
  // Reserves `estimate` after a successful Check(). `taken` records whether shared quotas apply.
  void Take(const Estimate& estimate, const Moment& moment, const Taken& taken = {});
  // Records that `estimate` was refused because of a shared quota, so that more is leased.
  void Missed(const Estimate& estimate);

  void LeaveQueue(int64_t queued_tokens) { queued_tokens_ -= queued_tokens; }
  // Ends a request that used `used` tokens; returns the rest of its reservation.
  void Settle(const Taken& taken, int64_t used, const Moment& moment);
  // Reverts Take() for a request that did not run.
  void Undo(const Taken& taken, const Moment& moment);

  // Adds tokens that were used today before this process began.
  void AddToDay(int64_t tokens, const Moment& moment);

  // Exchange with the store of shared quotas: whether it should be asked, the requests to it, and
  // its answers. `idle`: also returns unused units.
  bool Wants(const Moment& moment, bool idle) const;
  void Collect(const Moment& moment, bool idle, std::vector<SharedAsk>* asks);
  void Granted(const SharedAsk& ask, const QuotaGrant& grant, TimePoint now);
  void Failed(const SharedAsk& ask, TimePoint now);

  void FillView(const Moment& moment, RateLimitView* view, const Sharing& sharing = {}) const;
  // Each limit that the rules have, in the order of LimitKind.
  std::vector<KindView> Views(const Moment& moment, const Sharing& sharing = {}) const;
  bool AtRest(const Moment& moment) const;
  int64_t in_flight() const { return in_flight_; }
  int64_t queued_tokens() const { return queued_tokens_; }

 private:
  // This server's part of what is shared. The day's is of `day`.
  struct Shared {
    std::string key;
    Lease requests, tokens, day_tokens;
    int64_t day = 0;
  };
  Lease* LeaseOf(LimitKind limit) const;
  // Calls look(lease, limit's kind, quota, key) for each existing lease.
  template <class Look>
  void EachLease(const Moment& moment, const Look& look) const;

  // Calls see(limit's kind, view) for each limit of the rules, and again for what is shared of it.
  template <class See>
  void EachView(const Moment& moment, const Sharing& sharing, const See& see) const;

  int64_t UsedOn(int64_t day) const { return day > day_ ? 0 : day_tokens_; }
  void SettleDay(const Taken& taken, int64_t used);

  Rules rules_;
  std::unique_ptr<Shared> shared_;  // null: it is this server's alone
  Gcra requests_, tokens_;
  SlidingWindow window_;
  int64_t in_flight_ = 0, queued_tokens_ = 0;
  int64_t day_ = 0, day_tokens_ = 0;  // day of the last reservation, and its tokens
};

inline int64_t DayOf(int64_t unix_s) { return unix_s / 86'400; }

}  // namespace tutti::limits
