// ShareDevice: which slot of a device runs its next step. Pure; see device_loop.h.
#pragma once

#include <span>

#include "base/clock.h"

namespace tutti::engine {

struct SlotView {
  bool ready = false;  // has a step to run
  double weight = 1;   // share of the device among ready slots
  Duration used{0};    // device time it had, not yet divided by weight; lifted when it was idle
};

// The ready slot with the least time per weight; of equals the first. -1 when none is ready.
int ShareDevice(std::span<const SlotView> slots);

// Time per weight, the order in which slots are served.
double TimePerWeight(const SlotView& slot);

// What a slot that becomes ready counts as having used. `virtual_time` is TimePerWeight() of the
// slot served last as it was then (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996):
// idleness earns no credit, also where the others happen to be idle in the moment in which it ends.
Duration LiftedUse(const SlotView& slot, double virtual_time);

}  // namespace tutti::engine
