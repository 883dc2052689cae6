// SubjectState: what one subject has taken of each of its limits. Arithmetic alone; one thread at a
// time (the limiter's locks).
//
// A subject at rest (every bucket full, nothing in flight, nothing of today's quota used) decides
// as one that was never seen, so that it may be forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "services/limits/gcra.h"
#include "services/limits/lease.h"
#include "services/limits/rate_limit_view.h"
#include "services/limits/rules.h"
#include "services/limits/sliding_window.h"

namespace tutti::limits {

// What a request is reckoned to take before it runs. Both 0..kMostUnits.
struct Estimate {
  int64_t tokens = 0;         // uncached prompt and expected output
  int64_t queued_tokens = 0;  // of the prompt, while it waits for its first turn
};

// A moment by both clocks: waits go by the steady one, quotas by the calendar. Of the moments that
// a subject is shown neither `now` nor the day goes back.
struct Moment {
  TimePoint now{};
  int64_t unix_s = 0;  // wall time, seconds since 1970
};

// What was taken for one request, of each of its subjects.
struct Taken {
  TimePoint at{};
  int64_t day = 0;  // since 1970, by UTC
  int64_t tokens = 0;
  int64_t queued_tokens = 0;  // those not yet given back
  // Also of what servers share: requests; tokens.
  bool shared_requests = false, shared_tokens = false;
};

// How it stands with the servers that share limits with this one.
struct Sharing {
  bool up = false;  // they can be reached
  // What holds while they cannot: true, this server's own count; false, nothing passes but what is
  // leased already.
  bool requests_open = true, tokens_open = false;
};

// What a subject asks of the others.
struct SharedAsk {
  LimitKind limit = LimitKind::kRequests;
  QuotaAsk quota;
  Lease::Ask lease;
};

class SubjectState {
 public:
  // Its requests, tokens and day's tokens are shared with other servers, who know it as `key`.
  void Share(std::string key);
  bool shared() const { return shared_ != nullptr; }

  // From now on; what was taken stays taken.
  void SetRules(const Rules& rules, TimePoint now);

  // Why `estimate` cannot be had now: of several reasons the one that lasts longest. `subject` of
  // it is the caller's to set.
  std::optional<Refusal> Check(const Estimate& estimate, const Moment& moment,
                               const Sharing& sharing = {}) const;
  // Takes it, after Check found nothing. `taken` says whether also of what is shared.
  void Take(const Estimate& estimate, const Moment& moment, const Taken& taken = {});
  // Of what is shared: `estimate` was refused.
  void Missed(const Estimate& estimate);

  void LeaveQueue(int64_t queued_tokens) { queued_tokens_ -= queued_tokens; }
  // The request is over and used so many tokens; all else is given back.
  void Settle(const Taken& taken, int64_t used, const Moment& moment);
  // The request never was.
  void Undo(const Taken& taken, const Moment& moment);

  // Used today before this process began.
  void AddToDay(int64_t tokens, const Moment& moment);

  // Whether the others are to be asked; what; and what they said. `idle`: also for what is to be
  // given back.
  bool Wants(const Moment& moment, bool idle) const;
  void Collect(const Moment& moment, bool idle, std::vector<SharedAsk>* asks);
  void Granted(const SharedAsk& ask, const QuotaGrant& grant, TimePoint now);
  void Failed(const SharedAsk& ask, TimePoint now);

  void Tell(const Moment& moment, RateLimitView* view, const Sharing& sharing = {}) const;
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
  // Calls look(lease, limit's kind, quota, key) for each that there is.
  template <class Look>
  void EachLease(const Moment& moment, const Look& look) const;

  int64_t UsedOn(int64_t day) const { return day > day_ ? 0 : day_tokens_; }
  void SettleDay(const Taken& taken, int64_t used);

  Rules rules_;
  std::unique_ptr<Shared> shared_;  // null: it is this server's alone
  Gcra requests_, tokens_;
  SlidingWindow window_;
  int64_t in_flight_ = 0, queued_tokens_ = 0;
  int64_t day_ = 0, day_tokens_ = 0;  // the day of the last that was taken, and what it has used
};

inline int64_t DayOf(int64_t unix_s) { return unix_s / 86'400; }

}  // namespace tutti::limits
