// ShareDevice: selects the slot of a device that runs the next step. Pure; see device_loop.h.
#pragma once

#include <span>

#include "base/clock.h"

namespace tutti::engine {

struct InstanceView {
  bool ready = false;  // has a step to run
  double weight = 1;   // share of the device among ready slots
  Duration used{0};    // device time it had, not yet divided by weight; lifted when it was idle
};

// The ready slot with the least time per weight; of equals the first. -1 when none is ready.
int ShareDevice(std::span<const InstanceView> slots);

// Time per weight, the order in which slots are served.
double TimePerWeight(const InstanceView& slot);

// `used` of a slot that becomes ready. `virtual_time` is TimePerWeight() of the slot served last,
// at that time (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996): idle time earns no
// credit, even if the other slots are idle too when it ends.
Duration LiftedUse(const InstanceView& slot, double virtual_time);

}  // namespace tutti::engine
