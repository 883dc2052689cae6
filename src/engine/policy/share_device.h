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

// What a slot that becomes ready counts as having used: idleness earns no credit.
Duration LiftedUse(std::span<const SlotView> slots, int slot);

}  // namespace tutti::engine
