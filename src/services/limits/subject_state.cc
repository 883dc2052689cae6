#include "services/limits/subject_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::limits {
namespace {

// When a running sequence ends or a place in the queue becomes free is not known.
constexpr Duration kBusyRetry = std::chrono::seconds(1);

// The reason that lasts longest.
class Reasons {
 public:
  void Add(LimitKind kind, int64_t most, int64_t asked, int64_t remaining, Duration reset,
           Duration retry_after, bool unreachable = false) {
    if (retry_after == Duration(0)) return;
    if (worst_.has_value() && worst_->retry_after >= retry_after) return;
    worst_ = Refusal{.limit = kind,
                     .most = most,
                     .asked = asked,
                     .remaining = std::clamp<int64_t>(remaining, 0, most),
                     .reset = reset,
                     .retry_after = retry_after,
                     .unreachable = unreachable};
  }
  std::optional<Refusal> worst() const { return worst_; }

 private:
  std::optional<Refusal> worst_;
};

// Retry time for a count that other requests return; maximal if `asked` alone exceeds the limit.
Duration CountRetry(int64_t used, int64_t asked, int64_t most, Duration wait) {
  if (asked > most) return Duration::max();
  return used + asked > most ? wait : Duration(0);
}

Duration UntilNextDay(const Moment& moment) {
  return std::chrono::seconds((DayOf(moment.unix_s) + 1) * 86'400 - moment.unix_s);
}

// Wait until a shared quota, of which `left` is available, is full.
Duration UntilShared(const Quota& quota, int64_t left, const Moment& moment) {
  if (left >= quota.limit) return Duration(0);
  if (quota.period == Duration(0)) return UntilNextDay(moment);
  return Duration(
      static_cast<int64_t>(__int128{quota.limit - left} * quota.period.count() / quota.limit));
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
  if (shared_ != nullptr) {
    if (rules.requests_per_minute == 0) shared_->requests.Reset();
    if (rules.tokens_per_minute == 0) shared_->tokens.Reset();
    if (rules.tokens_per_day == 0) shared_->day_tokens.Reset();
  }
  rules_ = rules;
}

void SubjectState::Share(std::string key) {
  shared_ = std::make_unique<Shared>();
  shared_->key = std::move(key);
}

Lease* SubjectState::LeaseOf(LimitKind limit) const {
  return limit == LimitKind::kRequests ? &shared_->requests
         : limit == LimitKind::kTokens ? &shared_->tokens
                                       : &shared_->day_tokens;
}

template <class Look>
void SubjectState::EachLease(const Moment& moment, const Look& look) const {
  if (shared_ == nullptr) return;
  constexpr Duration kMinute = std::chrono::minutes(1);
  const std::string& key = shared_->key;
  const auto each = [&](LimitKind limit, int64_t most, Duration period, const std::string& of) {
    if (most > 0) look(LeaseOf(limit), limit, Quota{most, period}, of);
  };
  each(LimitKind::kRequests, rules_.requests_per_minute, kMinute, key);
  each(LimitKind::kTokens, rules_.tokens_per_minute, kMinute, key);
  if (rules_.tokens_per_day == 0) return;
  const int64_t day = DayOf(moment.unix_s);
  if (day != std::exchange(shared_->day, day)) shared_->day_tokens.Reset();
  each(LimitKind::kDayTokens, rules_.tokens_per_day, Duration(0), key + ":" + std::to_string(day));
}

bool SubjectState::Wants(const Moment& moment, bool idle) const {
  bool wants = false;
  EachLease(moment, [&](const Lease* lease, LimitKind, const Quota& quota, const std::string&) {
    wants = wants || lease->Wants(quota, moment.now) || (idle && lease->Idle(moment.now));
  });
  return wants;
}

void SubjectState::Collect(const Moment& moment, bool idle, std::vector<SharedAsk>* asks) {
  EachLease(moment, [&](Lease* lease, LimitKind limit, const Quota& quota, const std::string& key) {
    if (!lease->Wants(quota, moment.now) && !(idle && lease->Idle(moment.now))) return;
    SharedAsk ask{.limit = limit, .quota = {}, .lease = {}};
    ask.quota.key = key + ":" + std::string(NameOf(limit));
    ask.quota.limit = quota.limit;
    ask.quota.period = quota.period;
    asks->push_back(std::move(ask));  // may need memory: before anything is taken
    asks->back().lease = lease->Begin(quota, moment.now);
    asks->back().quota.charge = asks->back().lease.charge;
    asks->back().quota.want = asks->back().lease.want;
  });
}

void SubjectState::Granted(const SharedAsk& ask, const QuotaGrant& grant, TimePoint now) {
  LeaseOf(ask.limit)->Granted(ask.lease, grant, now);
}

void SubjectState::Failed(const SharedAsk& ask, TimePoint now) {
  LeaseOf(ask.limit)->Failed({ask.quota.limit, ask.quota.period}, ask.lease, now);
}

void SubjectState::Missed(const Estimate& estimate) {
  if (shared_ == nullptr) return;
  shared_->requests.Missed(1);
  shared_->tokens.Missed(estimate.tokens);
  shared_->day_tokens.Missed(estimate.tokens);
}

std::optional<Refusal> SubjectState::Check(const Estimate& estimate, const Moment& moment,
                                           const Sharing& sharing) const {
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
    // If the whole quota is used, even a request for 0 tokens is refused.
    reasons.Add(LimitKind::kDayTokens, most, estimate.tokens, most - used, wait,
                CountRetry(used, std::max<int64_t>(estimate.tokens, 1), most, wait));
  }
  EachLease(moment, [&](const Lease* lease, LimitKind limit, const Quota& quota,
                        const std::string&) {
    const int64_t asked = limit == LimitKind::kRequests ? 1
                          : limit == LimitKind::kTokens ? estimate.tokens
                                                        : std::max<int64_t>(estimate.tokens, 1);
    const bool open = limit == LimitKind::kRequests ? sharing.requests_open : sharing.tokens_open;
    if (sharing.up) {
      const int64_t left = lease->Remaining(quota, now);
      reasons.Add(limit, quota.limit, asked, left, UntilShared(quota, left, moment),
                  lease->RetryAfter(quota, asked, now, UntilNextDay(moment)));
    } else if (!open && !lease->AtHand(asked)) {
      reasons.Add(limit, quota.limit, asked, 0, Duration(0), kBusyRetry, true);
    }
  });
  return reasons.worst();
}

void SubjectState::Take(const Estimate& estimate, const Moment& moment, const Taken& taken) {
  if (rules_.window.limit > 0) window_.Charge(rules_.window, moment.now);  // may need memory
  if (rules_.requests_per_minute > 0)
    requests_.Charge(PerMinute(rules_.requests_per_minute), 1, moment.now);
  if (rules_.tokens_per_minute > 0)
    tokens_.Charge(PerMinute(rules_.tokens_per_minute), estimate.tokens, moment.now);
  if (rules_.tokens_per_day > 0) AddToDay(estimate.tokens, moment);
  ++in_flight_;
  queued_tokens_ += estimate.queued_tokens;
  EachLease(moment, [&](Lease* lease, LimitKind limit, const Quota&, const std::string&) {
    const bool requests = limit == LimitKind::kRequests;
    if (requests ? taken.shared_requests : taken.shared_tokens)
      lease->Spend(requests ? 1 : estimate.tokens, moment.now);
  });
}

void SubjectState::AddToDay(int64_t tokens, const Moment& moment) {
  const int64_t day = DayOf(moment.unix_s);
  day_tokens_ = std::min(UsedOn(day) + std::clamp<int64_t>(tokens, 0, kMaxUnits), kMaxUnits);
  day_ = day;
}

// A request counts to the day on which it began: another day's is left alone.
void SubjectState::SettleDay(const Taken& taken, int64_t used) {
  if (rules_.tokens_per_day == 0 || taken.day < day_) return;
  day_tokens_ = std::clamp<int64_t>(day_tokens_ - taken.tokens + used, 0, kMaxUnits);
}

void SubjectState::Settle(const Taken& taken, int64_t used, const Moment& moment) {
  CHECK_GT(in_flight_, 0);
  --in_flight_;
  LeaveQueue(taken.queued_tokens);
  if (rules_.tokens_per_minute > 0) {
    tokens_.Settle(PerMinute(rules_.tokens_per_minute), taken.tokens, used, taken.at, moment.now);
  }
  SettleDay(taken, used);
  if (!taken.shared_tokens) return;
  EachLease(moment, [&](Lease* lease, LimitKind limit, const Quota&, const std::string&) {
    // Another day's is left alone, as above.
    const bool today = limit == LimitKind::kDayTokens && taken.day == DayOf(moment.unix_s);
    if (limit == LimitKind::kTokens || today) lease->GiveBack(taken.tokens - used);
  });
}

void SubjectState::Undo(const Taken& taken, const Moment& moment) {
  Settle(taken, 0, moment);
  if (rules_.requests_per_minute > 0)
    requests_.Settle(PerMinute(rules_.requests_per_minute), 1, 0, taken.at, moment.now);
  window_.Undo(taken.at);
  if (taken.shared_requests && shared_ != nullptr && rules_.requests_per_minute > 0)
    shared_->requests.GiveBack(1);
}

template <class See>
void SubjectState::EachView(const Moment& moment, const Sharing& sharing, const See& see) const {
  const TimePoint now = moment.now;
  if (rules_.requests_per_minute > 0) {
    const Rate rate = PerMinute(rules_.requests_per_minute);
    see(LimitKind::kRequests,
        LimitView{rate.limit, requests_.Remaining(rate, now), requests_.UntilFull(rate, now)});
  }
  if (rules_.window.limit > 0) {
    see(LimitKind::kWindow, LimitView{rules_.window.limit, window_.Remaining(rules_.window, now),
                                      window_.UntilFull(rules_.window, now)});
  }
  if (rules_.tokens_per_minute > 0) {
    const Rate rate = PerMinute(rules_.tokens_per_minute);
    see(LimitKind::kTokens,
        LimitView{rate.limit, tokens_.Remaining(rate, now), tokens_.UntilFull(rate, now)});
  }
  // When requests end is not known.
  if (const int64_t most = rules_.concurrency; most > 0) {
    see(LimitKind::kConcurrency,
        LimitView{most, std::max<int64_t>(most - in_flight_, 0), Duration(0)});
  }
  if (const int64_t most = rules_.queued_tokens; most > 0) {
    see(LimitKind::kQueuedTokens,
        LimitView{most, std::max<int64_t>(most - queued_tokens_, 0), Duration(0)});
  }
  if (const int64_t most = rules_.tokens_per_day; most > 0) {
    const int64_t used = UsedOn(DayOf(moment.unix_s));
    see(LimitKind::kDayTokens, LimitView{most, std::max<int64_t>(most - used, 0),
                                         used > 0 ? UntilNextDay(moment) : Duration(0)});
  }
  if (!sharing.up) return;
  EachLease(moment,
            [&](const Lease* lease, LimitKind limit, const Quota& quota, const std::string&) {
              const int64_t left = lease->Remaining(quota, now);
              see(limit, LimitView{quota.limit, left, UntilShared(quota, left, moment)});
            });
}

void SubjectState::FillView(const Moment& moment, RateLimitView* view,
                            const Sharing& sharing) const {
  EachView(moment, sharing, [view](LimitKind kind, const LimitView& limit) {
    // The others have no header.
    if (kind == LimitKind::kRequests || kind == LimitKind::kWindow) view->LowerRequests(limit);
    if (kind == LimitKind::kTokens || kind == LimitKind::kDayTokens) view->LowerTokens(limit);
  });
}

std::vector<KindView> SubjectState::Views(const Moment& moment, const Sharing& sharing) const {
  std::vector<KindView> views;
  EachView(moment, sharing, [&views](LimitKind kind, const LimitView& limit) {
    const auto same = std::find_if(views.begin(), views.end(),
                                   [kind](const KindView& each) { return each.kind == kind; });
    if (same == views.end()) {
      views.push_back({kind, limit});
    } else if (limit.remaining < same->view.remaining) {
      same->view = limit;
    }
  });
  return views;
}

bool SubjectState::AtRest(const Moment& moment) const {
  if (shared_ != nullptr &&
      !(shared_->requests.AtRest() && shared_->tokens.AtRest() && shared_->day_tokens.AtRest()))
    return false;
  const auto full = [&](const Gcra& bucket, int64_t limit) {
    return limit == 0 || bucket.AtRest(PerMinute(limit), moment.now);
  };
  return in_flight_ == 0 && queued_tokens_ == 0 && full(requests_, rules_.requests_per_minute) &&
         full(tokens_, rules_.tokens_per_minute) &&
         (rules_.window.limit == 0 || window_.AtRest(rules_.window, moment.now)) &&
         UsedOn(DayOf(moment.unix_s)) == 0;
}

}  // namespace tutti::limits
