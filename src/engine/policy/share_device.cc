#include "engine/policy/share_device.h"

#include <algorithm>

namespace tutti::engine {
namespace {
double PerWeight(const SlotView& slot) {
  return static_cast<double>(slot.used.count()) / slot.weight;
}
}  // namespace

int ShareDevice(std::span<const SlotView> slots) {
  int best = -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].ready) continue;
    if (best < 0 || PerWeight(slots[i]) < PerWeight(slots[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  }
  return best;
}

Duration LiftedUse(std::span<const SlotView> slots, int slot) {
  const SlotView& own = slots[static_cast<size_t>(slot)];
  double least = -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (static_cast<int>(i) == slot || !slots[i].ready) continue;
    if (least < 0 || PerWeight(slots[i]) < least) least = PerWeight(slots[i]);
  }
  if (least < 0) return own.used;
  return std::max(own.used, Duration(static_cast<int64_t>(least * own.weight)));
}

}  // namespace tutti::engine
