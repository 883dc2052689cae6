#include "engine/policy/share_device.h"

#include <algorithm>

namespace tutti::engine {

double TimePerWeight(const InstanceView& slot) {
  return static_cast<double>(slot.used.count()) / slot.weight;
}

int ShareDevice(std::span<const InstanceView> slots) {
  int best = -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].ready) continue;
    if (best < 0 || TimePerWeight(slots[i]) < TimePerWeight(slots[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

Duration LiftedUse(const InstanceView& slot, double virtual_time) {
  return std::max(slot.used, Duration(static_cast<int64_t>(virtual_time * slot.weight)));
}

}  // namespace tutti::engine
