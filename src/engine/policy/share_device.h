// ShareDevice: selects the slot of a device that runs the next step. Pure; see device_loop.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace tutti::engine {

struct InstanceView {
  bool ready = false;  // has a step to run
  double weight = 1;   // share of the device among ready slots
  Duration used{0};    // device time it had, not yet divided by weight; lifted when it was idle
};

// Time per weight, the order in which slots are served.
inline double TimePerWeight(const InstanceView& slot) {
  return static_cast<double>(slot.used.count()) / slot.weight;
}

// The ready slot with the least time per weight; of equals the first. -1 when none is ready.
inline int ShareDevice(std::span<const InstanceView> slots) {
  int best = -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].ready) continue;
    if (best < 0 || TimePerWeight(slots[i]) < TimePerWeight(slots[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

// `used` of a slot that becomes ready. `virtual_time` is TimePerWeight() of the slot served last,
// at that time (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996): idle time earns no
// credit, even if the other slots are idle too when it ends.
inline Duration LiftedUse(const InstanceView& slot, double virtual_time) {
  return std::max(slot.used, Duration(static_cast<int64_t>(virtual_time * slot.weight)));
}

}  // namespace tutti::engine
