#include "services/limits/subject_state.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::limits {
namespace {

// When a lane or a place in the queue will be free nobody knows.
constexpr Duration kBusyRetry = std::chrono::seconds(1);

// The reason that lasts longest.
class Reasons {
 public:
  void Add(LimitKind kind, int64_t most, int64_t asked, int64_t remaining, Duration reset,
           Duration retry_after) {
    if (retry_after == Duration(0)) return;
    if (worst_.has_value() && worst_->retry_after >= retry_after) return;
    worst_ = Refusal{.limit = kind,
                     .most = most,
                     .asked = asked,
                     .remaining = std::clamp<int64_t>(remaining, 0, most),
                     .reset = reset,
                     .retry_after = retry_after};
  }
  std::optional<Refusal> worst() const { return worst_; }

 private:
  std::optional<Refusal> worst_;
};

// Of a count that others give back: never where it is too much alone.
Duration CountRetry(int64_t used, int64_t asked, int64_t most, Duration wait) {
  if (asked > most) return Duration::max();
  return used + asked > most ? wait : Duration(0);
}

Duration UntilNextDay(const Moment& moment) {
  return std::chrono::seconds((DayOf(moment.unix_s) + 1) * 86'400 - moment.unix_s);
}

void Change(Gcra* bucket, int64_t from, int64_t to, TimePoint now) {
  if (from == to) return;
  if (from == 0 || to == 0) {
    *bucket = Gcra();
  } else {
    bucket->Change(PerMinute(from), PerMinute(to), now);
  }
}

}  // namespace

void SubjectState::SetRules(const Rules& rules, TimePoint now) {
  if (rules == rules_) return;
  Change(&requests_, rules_.requests_per_minute, rules.requests_per_minute, now);
  Change(&tokens_, rules_.tokens_per_minute, rules.tokens_per_minute, now);
  rules_ = rules;
}

std::optional<Refusal> SubjectState::Check(const Estimate& estimate, const Moment& moment) const {
  const TimePoint now = moment.now;
  Reasons reasons;
  if (rules_.requests_per_minute > 0) {
    const Rate rate = PerMinute(rules_.requests_per_minute);
    reasons.Add(LimitKind::kRequests, rate.limit, 1, requests_.Remaining(rate, now),
                requests_.UntilFull(rate, now), requests_.RetryAfter(rate, 1, now));
  }
  if (rules_.window.limit > 0) {
    reasons.Add(LimitKind::kWindow, rules_.window.limit, 1, window_.Remaining(rules_.window, now),
                window_.UntilFull(rules_.window, now), window_.RetryAfter(rules_.window, now));
  }
  if (rules_.tokens_per_minute > 0) {
    const Rate rate = PerMinute(rules_.tokens_per_minute);
    reasons.Add(LimitKind::kTokens, rate.limit, estimate.tokens, tokens_.Remaining(rate, now),
                tokens_.UntilFull(rate, now), tokens_.RetryAfter(rate, estimate.tokens, now));
  }
  if (const int64_t most = rules_.concurrency; most > 0) {
    reasons.Add(LimitKind::kConcurrency, most, 1, most - in_flight_, Duration(0),
                CountRetry(in_flight_, 1, most, kBusyRetry));
  }
  if (const int64_t most = rules_.queued_tokens; most > 0) {
    reasons.Add(LimitKind::kQueuedTokens, most, estimate.queued_tokens, most - queued_tokens_,
                Duration(0), CountRetry(queued_tokens_, estimate.queued_tokens, most, kBusyRetry));
  }
  if (const int64_t most = rules_.tokens_per_day; most > 0) {
    const int64_t used = UsedOn(DayOf(moment.unix_s));
    const Duration wait = UntilNextDay(moment);
    // Once all is used, one that asks for nothing is refused too.
    reasons.Add(LimitKind::kDayTokens, most, estimate.tokens, most - used, wait,
                CountRetry(used, std::max<int64_t>(estimate.tokens, 1), most, wait));
  }
  return reasons.worst();
}

void SubjectState::Take(const Estimate& estimate, const Moment& moment) {
  if (rules_.window.limit > 0) window_.Charge(rules_.window, moment.now);  // may need memory
  if (rules_.requests_per_minute > 0)
    requests_.Charge(PerMinute(rules_.requests_per_minute), 1, moment.now);
  if (rules_.tokens_per_minute > 0)
    tokens_.Charge(PerMinute(rules_.tokens_per_minute), estimate.tokens, moment.now);
  if (rules_.tokens_per_day > 0) AddToDay(estimate.tokens, moment);
  ++in_flight_;
  queued_tokens_ += estimate.queued_tokens;
}

void SubjectState::AddToDay(int64_t tokens, const Moment& moment) {
  const int64_t day = DayOf(moment.unix_s);
  day_tokens_ = std::min(UsedOn(day) + std::clamp<int64_t>(tokens, 0, kMostUnits), kMostUnits);
  day_ = day;
}

// A request counts to the day on which it began: another day's is left alone.
void SubjectState::SettleDay(const Taken& taken, int64_t used) {
  if (rules_.tokens_per_day == 0 || taken.day < day_) return;
  day_tokens_ = std::clamp<int64_t>(day_tokens_ - taken.tokens + used, 0, kMostUnits);
}

void SubjectState::Settle(const Taken& taken, int64_t used, const Moment& moment) {
  CHECK_GT(in_flight_, 0);
  --in_flight_;
  LeaveQueue(taken.queued_tokens);
  if (rules_.tokens_per_minute > 0) {
    tokens_.Settle(PerMinute(rules_.tokens_per_minute), taken.tokens, used, taken.at, moment.now);
  }
  SettleDay(taken, used);
}

void SubjectState::Undo(const Taken& taken, const Moment& moment) {
  Settle(taken, 0, moment);
  if (rules_.requests_per_minute > 0)
    requests_.Settle(PerMinute(rules_.requests_per_minute), 1, 0, taken.at, moment.now);
  window_.Undo(taken.at);
}

void SubjectState::Tell(const Moment& moment, RateLimitView* view) const {
  const TimePoint now = moment.now;
  if (rules_.requests_per_minute > 0) {
    const Rate rate = PerMinute(rules_.requests_per_minute);
    view->TellRequests(
        {rate.limit, requests_.Remaining(rate, now), requests_.UntilFull(rate, now)});
  }
  if (rules_.window.limit > 0) {
    view->TellRequests({rules_.window.limit, window_.Remaining(rules_.window, now),
                        window_.UntilFull(rules_.window, now)});
  }
  if (rules_.tokens_per_minute > 0) {
    const Rate rate = PerMinute(rules_.tokens_per_minute);
    view->TellTokens({rate.limit, tokens_.Remaining(rate, now), tokens_.UntilFull(rate, now)});
  }
  if (const int64_t most = rules_.tokens_per_day; most > 0) {
    const int64_t used = UsedOn(DayOf(moment.unix_s));
    view->TellTokens(
        {most, std::max<int64_t>(most - used, 0), used > 0 ? UntilNextDay(moment) : Duration(0)});
  }
}

bool SubjectState::AtRest(const Moment& moment) const {
  const auto full = [&](const Gcra& bucket, int64_t limit) {
    return limit == 0 || bucket.AtRest(PerMinute(limit), moment.now);
  };
  return in_flight_ == 0 && queued_tokens_ == 0 && full(requests_, rules_.requests_per_minute) &&
         full(tokens_, rules_.tokens_per_minute) &&
         (rules_.window.limit == 0 || window_.AtRest(rules_.window, moment.now)) &&
         UsedOn(DayOf(moment.unix_s)) == 0;
}

}  // namespace tutti::limits
