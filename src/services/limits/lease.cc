#include "services/limits/lease.h"

#include <algorithm>

#include "services/limits/rate.h"

namespace tutti::limits {
namespace {

constexpr Duration kIdle = std::chrono::seconds(1);
constexpr Duration kStale = std::chrono::seconds(1);
// Wait for an answer of the shared store, which takes about a millisecond.
constexpr Duration kUntold = std::chrono::milliseconds(50);

// Maximum units per exchange, if requests come faster than answers.
int64_t MostOf(int64_t limit) { return std::max(ChunkOf(limit), limit / 20); }

}  // namespace

int64_t ChunkOf(int64_t limit) {
  return std::max({limit / 50, std::min<int64_t>(8, limit / 4), int64_t{1}});
}

int64_t Lease::Left(const Quota& quota, TimePoint now) const {
  if (!heard_any_) return quota.limit;
  int64_t left = heard_;
  if (quota.period > Duration(0) && now > heard_at_) {
    const __int128 filled =
        __int128{(now - heard_at_).count()} * quota.limit / quota.period.count();
    left += static_cast<int64_t>(std::min<__int128>(filled, 2 * kMaxUnits));
  }
  return std::min(left, quota.limit);
}

Duration Lease::RetryAfter(const Quota& quota, int64_t units, TimePoint now, Duration next) const {
  const int64_t left = Left(quota, now);
  const int64_t credit = std::clamp<int64_t>(left, 0, ChunkOf(quota.limit));
  if (units <= balance_ - telling_ + credit || units <= balance_) return Duration(0);
  const bool all_told = telling_ == 0 && balance_ >= 0;
  if (all_told && units <= balance_ + std::max<int64_t>(left, 0)) return Duration(0);
  const int64_t missing = units - balance_ + telling_ - left;
  if (missing <= 0) return kUntold;
  if (quota.period == Duration(0)) return next;
  const __int128 wait = (__int128{missing} * quota.period.count() + quota.limit - 1) / quota.limit;
  return std::max(
      kUntold,
      Duration(static_cast<int64_t>(std::min<__int128>(wait, Duration::max().count() / 2))));
}

void Lease::Spend(int64_t units, TimePoint now) {
  balance_ = std::max(balance_ - units, -kMaxUnits);
  spent_at_ = now;
}

void Lease::Missed(int64_t units) { missed_ = std::min(missed_ + units, kMaxUnits); }

int64_t Lease::Remaining(const Quota& quota, TimePoint now) const {
  return std::clamp<int64_t>(balance_ - telling_ + Left(quota, now), 0, quota.limit);
}

bool Lease::Wants(const Quota& quota, TimePoint now) const {
  if (asking_) return false;
  if (balance_ < 0 || balance_ > 2 * MostOf(quota.limit)) return true;
  if (missed_ == 0 && now - spent_at_ >= kIdle) return false;
  // Refreshes the known remainder: other servers may have spent or returned units.
  if (now - heard_at_ >= kStale) return true;
  // Renews at half a chunk, so that the other half covers the round trip; not if the quota is
  // exhausted.
  return balance_ <= ChunkOf(quota.limit) / 2 && Left(quota, now) > 0;
}

bool Lease::Idle(TimePoint now) const {
  return !asking_ && balance_ > 0 && now - spent_at_ >= kIdle;
}

Lease::Ask Lease::Begin(const Quota& quota, TimePoint now) {
  const int64_t chunk = ChunkOf(quota.limit), most = MostOf(quota.limit);
  Ask ask{.charge = 0, .want = 0, .round = round_};
  if (missed_ == 0 && Idle(now)) {
    ask.charge = -balance_;
  } else if (balance_ > 2 * most) {  // requests were estimated too long
    ask.charge = chunk - balance_;
  } else {
    if (balance_ <= chunk / 2) ask.want = std::clamp(chunk + missed_, chunk, most);
    if (balance_ < 0) ask.charge = telling_ = -balance_;
  }
  balance_ += ask.charge;
  missed_ = 0;
  asking_ = true;
  return ask;
}

void Lease::Granted(const Ask& ask, const QuotaGrant& grant, TimePoint now) {
  if (ask.round != round_) return;
  asking_ = false;
  telling_ = 0;
  if (grant.leased > 0) leased_at_ = now;
  balance_ += std::clamp<int64_t>(grant.leased, 0, ask.want);
  heard_ = std::clamp(grant.remaining, -2 * kMaxUnits, 2 * kMaxUnits);
  heard_at_ = now;
  heard_any_ = true;
}

void Lease::Failed(const Quota& quota, const Ask& ask, TimePoint now) {
  if (ask.round != round_) return;
  asking_ = false;
  telling_ = 0;
  // The store may have counted the charge: it is charged again, because counting twice errs towards
  // refusing. Units that were to be returned are not taken back, for the same reason.
  if (ask.charge > 0) balance_ = std::max(balance_ - ask.charge, -kMaxUnits);
  // After a whole period the quota is full again, for any earlier spending or leases.
  const TimePoint since = balance_ > 0 ? leased_at_ : spent_at_;
  if (quota.period > Duration(0) && now - since > quota.period) balance_ = 0;
}

void Lease::Reset() {
  const uint32_t round = round_ + 1;
  *this = Lease();
  round_ = round;
}

}  // namespace tutti::limits
