#include "engine/policy/dispatch.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// Below this share the device has time to spare: saving some of it is worth no wait.
constexpr double kKnee = 0.5;

}  // namespace

TimePoint HoldUntil(const DispatchView& v) {
  if (v.full || v.window.count() <= 0 || v.items == 0) return v.now;
  if (v.last_end == TimePoint::min() || v.oldest >= v.last_end) return v.now;  // it was free
  const Duration hold = std::min(v.window, v.fixed);
  const bool pays = v.busy >= kKnee && v.fixed * 2 >= v.estimate &&
                    v.items_per_second * ToSeconds(hold) >= v.items;
  if (!pays) return v.now;
  TimePoint until = std::min(v.last_end + hold, v.oldest + v.window);
  if (v.deadline != TimePoint::max()) until = std::min(until, v.deadline - v.estimate * 2);
  return std::max(until, v.now);
}

}  // namespace tutti::engine
