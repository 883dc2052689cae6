#include "services/limits/sliding_window.h"

#include <algorithm>

namespace tutti::limits {

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
