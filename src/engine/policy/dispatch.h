// When the next batch of an encoder goes. Pure.
//
// A device that is free is given what waits, at once: no timer ever delays a request that came
// while it was idle. Only where requests piled up behind a batch may the next one be held back for
// those that are about to come, and only while that saves device time: see HoldUntil().
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti::engine {

// Why a batch went when it did: a label of metrics.
enum class DispatchReason : uint8_t {
  kFull,      // no further item would have fitted: items, tokens or time
  kIdle,      // all that waited, the device being free
  kDeadline,  // held back until the window or the patience of a request ended
  kAge,       // full, and it had to take items that others were put before as often as allowed
};
inline constexpr int kDispatchReasons = 4;

struct DispatchView {
  TimePoint now{};
  TimePoint oldest{};                     // when the first of the waiting items came
  TimePoint deadline = TimePoint::max();  // the first of the waiting requests' deadlines
  TimePoint last_end = TimePoint::min();  // of the last batch; min() = none yet
  int items = 0;                          // waiting
  bool full = false;                      // they fill a batch
  double items_per_second = 0;            // that came lately
  double busy = 0;                        // share of the time lately in which batches ran
  Duration fixed{0};                      // cost of a batch whatever is in it
  Duration estimate{0};                   // of a batch of what waits
  Duration window{0};                     // longest delay; 0 = never hold back
};

// When to go: `now` or before = at once. Holding back pays while the fixed cost of a batch is most
// of it, the device is busy most of the time, and as many items again are expected to come before
// the time that merging them saves is over; it ends early enough for every deadline.
TimePoint HoldUntil(const DispatchView& view);

}  // namespace tutti::engine
