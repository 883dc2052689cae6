#include "engine/policy/dispatch.h"

#include <algorithm>
#include <cmath>

namespace tutti::engine {
namespace {

// Below this share the device has time to spare: saving some of it is worth no wait.
constexpr double kKnee = 0.5;

}  // namespace

Duration LongestHold(Duration window, Duration fixed) { return std::min(window, fixed / 2); }

TimePoint HoldUntil(const DispatchView& v) {
  if (v.full || v.window.count() <= 0 || v.items == 0) return v.now;
  if (v.last_end == TimePoint::min() || v.oldest >= v.last_end) return v.now;  // it was free
  const bool pays = v.busy >= kKnee && v.fixed * 2 >= v.estimate &&
                    v.expected >= std::max(v.piled_up, 1) &&
                    v.items < std::floor(v.piled_up + v.expected + 0.5);
  if (!pays) return v.now;
  TimePoint until = std::min(v.last_end + LongestHold(v.window, v.fixed), v.oldest + v.window);
  if (v.deadline != TimePoint::max()) until = std::min(until, v.deadline - v.estimate * 2);
  return std::max(until, v.now);
}

}  // namespace tutti::engine
