// ReconnectBackoff: the delay before the next connection attempt to the broker. Pure; owned by the
// bridge's thread.
//
// The maximum delay starts at 1 s and doubles with each failed attempt, up to 120 s. The delay is
// random within the upper half of the maximum, so that clients which lost their connections in the
// same restart do not return together. After a connection that lasted for a minute, the maximum
// starts at 1 s again; after a shorter one it does not, so that a broker which accepts and then
// disconnects is not tried every second.
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
  // The delay after an attempt or connection that ended at `now`: random in [w/2, w], where w is
  // the current maximum.
  Duration Lost(TimePoint now);

 private:
  const BackoffLimits limits_;
  Random random_;
  Duration due_{0};                         // the last w; 0 = none yet
  TimePoint connected_ = TimePoint::max();  // max = not connected
};

}  // namespace tutti::mqtt::bridge
