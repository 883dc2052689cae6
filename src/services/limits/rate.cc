#include "services/limits/rate.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::limits {
namespace {

using Parts = __int128;

Parts PartsOf(const Rate& rate, TimePoint time) {
  return Parts{time.time_since_epoch().count()} * rate.limit;
}
Parts PartsOf(const Rate& rate, int64_t units) {
  return Parts{std::clamp<int64_t>(units, 0, kMaxUnits)} * rate.period.count();
}
// The time after which `parts` have been refilled, rounded up to a nanosecond.
Duration Time(const Rate& rate, Parts parts) {
  return Duration(static_cast<int64_t>((parts + rate.limit - 1) / rate.limit));
}

}  // namespace

Gcra::Parts Gcra::Missing(const Rate& rate, TimePoint now) const {
  return std::max<Parts>(full_at_ - PartsOf(rate, now), 0);
}

Duration Gcra::RetryAfter(const Rate& rate, int64_t units, TimePoint now) const {
  if (units > rate.burst) return Duration::max();
  const Parts over = Missing(rate, now) + PartsOf(rate, units) - PartsOf(rate, rate.burst);
  return over > 0 ? Time(rate, over) : Duration(0);
}

bool Gcra::Take(const Rate& rate, int64_t units, TimePoint now) {
  if (RetryAfter(rate, units, now) > Duration(0)) return false;
  Charge(rate, units, now);
  return true;
}

void Gcra::Charge(const Rate& rate, int64_t units, TimePoint now) {
  const Parts missing = Missing(rate, now);
  if (missing == 0) busy_since_ = now;
  // A debt is bounded too, so that no sum of them can leave the range.
  const Parts most = PartsOf(rate, kMaxUnits);
  full_at_ = PartsOf(rate, now) + std::min(missing + PartsOf(rate, units), most);
}

void Gcra::Settle(const Rate& rate, int64_t reserved, int64_t used, TimePoint taken_at,
                  TimePoint now) {
  if (used > reserved) return Charge(rate, used - reserved, now);
  if (used == reserved || taken_at < busy_since_) return;
  full_at_ -= std::min(Missing(rate, now), PartsOf(rate, reserved - used));
}

void Gcra::Change(const Rate& from, const Rate& to, TimePoint now) {
  CHECK(from.period == to.period);
  full_at_ = PartsOf(to, now) + Missing(from, now);
}

int64_t Gcra::Remaining(const Rate& rate, TimePoint now) const {
  const Parts left = PartsOf(rate, rate.burst) - Missing(rate, now);
  return left > 0 ? static_cast<int64_t>(left / rate.period.count()) : 0;
}

Duration Gcra::UntilFull(const Rate& rate, TimePoint now) const {
  return Time(rate, Missing(rate, now));
}

bool SlidingWindow::Take(const Window& window, TimePoint now) {
  if (RetryAfter(window, now) > Duration(0)) return false;
  Charge(window, now);
  return true;
}

Duration SlidingWindow::RetryAfter(const Window& window, TimePoint now) const {
  const auto limit = static_cast<size_t>(window.limit);
  if (times_.size() < limit) return Duration(0);
  // When this one counts no more, limit - 1 others are left.
  return std::max(times_[times_.size() - limit] + window.period - now, Duration(0));
}

void SlidingWindow::Charge(const Window& window, TimePoint now) {
  while (!times_.empty() && now - times_.front() >= window.period) times_.pop_front();
  if (times_.size() >= static_cast<size_t>(kMaxInWindow)) times_.pop_front();
  times_.push_back(now);
}

void SlidingWindow::Undo(TimePoint taken_at) {
  const auto found = std::find(times_.rbegin(), times_.rend(), taken_at);
  if (found != times_.rend()) times_.erase(std::next(found).base());
}

int SlidingWindow::Remaining(const Window& window, TimePoint now) const {
  const auto counting = std::count_if(times_.begin(), times_.end(),
                                      [&](TimePoint time) { return now - time < window.period; });
  return std::max(window.limit - static_cast<int>(counting), 0);
}

Duration SlidingWindow::UntilFull(const Window& window, TimePoint now) const {
  if (times_.empty()) return Duration(0);
  return std::max(times_.back() + window.period - now, Duration(0));
}

}  // namespace tutti::limits
