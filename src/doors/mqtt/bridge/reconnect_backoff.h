// ReconnectBackoff: how long to wait before the broker is tried again. Pure; owned by the bridge's
// thread.
//
// From 1 s doubled by each try in vain to 120 s. The wait is drawn from the upper half of that, so
// that clients which one restart has thrown out do not come back together. A connection that held
// for a minute has the next wait begin at 1 s again; one that did not, has not: a broker that lets
// in and throws out is not asked every second.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/random.h"

namespace tutti::mqtt::bridge {

struct BackoffLimits {
  Duration first = std::chrono::seconds(1);
  Duration most = std::chrono::seconds(120);
  Duration stable = std::chrono::minutes(1);
};

class ReconnectBackoff {
 public:
  ReconnectBackoff(const BackoffLimits& limits, uint64_t seed) : limits_(limits), random_(seed) {}

  void Connected(TimePoint now) { connected_ = now; }
  // Of a try or connection that ended at `now`: how long to wait, within [w/2, w] of the w that is
  // due.
  Duration Lost(TimePoint now);

 private:
  const BackoffLimits limits_;
  Random random_;
  Duration due_{0};                         // the last w; 0 = none yet
  TimePoint connected_ = TimePoint::max();  // max = not
};

}  // namespace tutti::mqtt::bridge
