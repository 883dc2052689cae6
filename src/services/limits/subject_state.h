// SubjectState: what one subject has taken of each of its limits. Arithmetic alone; one thread at a
// time (the limiter's locks).
//
// A subject at rest (every bucket full, nothing in flight, nothing of today's quota used) decides
// as one that was never seen, so that it may be forgotten.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "services/limits/gcra.h"
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
};

class SubjectState {
 public:
  // From now on; what was taken stays taken.
  void SetRules(const Rules& rules, TimePoint now);

  // Why `estimate` cannot be had now: of several reasons the one that lasts longest. `subject` of
  // it is the caller's to set.
  std::optional<Refusal> Check(const Estimate& estimate, const Moment& moment) const;
  // Takes it, after Check found nothing.
  void Take(const Estimate& estimate, const Moment& moment);

  void LeaveQueue(int64_t queued_tokens) { queued_tokens_ -= queued_tokens; }
  // The request is over and used so many tokens; all else is given back.
  void Settle(const Taken& taken, int64_t used, const Moment& moment);
  // The request never was.
  void Undo(const Taken& taken, const Moment& moment);

  // Used today before this process began.
  void AddToDay(int64_t tokens, const Moment& moment);

  void Tell(const Moment& moment, RateLimitView* view) const;
  bool AtRest(const Moment& moment) const;
  int64_t in_flight() const { return in_flight_; }
  int64_t queued_tokens() const { return queued_tokens_; }

 private:
  int64_t UsedOn(int64_t day) const { return day > day_ ? 0 : day_tokens_; }
  void SettleDay(const Taken& taken, int64_t used);

  Rules rules_;
  Gcra requests_, tokens_;
  SlidingWindow window_;
  int64_t in_flight_ = 0, queued_tokens_ = 0;
  int64_t day_ = 0, day_tokens_ = 0;  // the day of the last that was taken, and what it has used
};

inline int64_t DayOf(int64_t unix_s) { return unix_s / 86'400; }

}  // namespace tutti::limits
