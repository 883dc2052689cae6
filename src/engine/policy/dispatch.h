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
  kDeadline,  // all that waited, after it was held back: the time for that was over, or they were
              // here
  kAge,       // full, and it had to take items that others were put before as often as allowed
};
inline constexpr int kDispatchReasons = 4;

struct DispatchView {
  TimePoint now{};
  TimePoint oldest{};                     // when the first of the waiting items came
  TimePoint deadline = TimePoint::max();  // the first of the waiting requests' deadlines
  TimePoint last_end = TimePoint::min();  // of the last batch; min() = none yet
  int items = 0;                          // waiting
  int piled_up = 0;                       // of these, came before last_end
  double expected = 0;                    // items that usually come soon after such a batch
  bool full = false;                      // what waits fills a batch
  double busy = 0;                        // share of the time lately in which batches ran
  Duration fixed{0};                      // cost of a batch whatever is in it
  Duration estimate{0};                   // of a batch of what waits
  Duration window{0};                     // longest delay; 0 = never hold back
};

// When to go: `now` or before = at once. Holding back pays where clients answer results with their
// next request, so that those whose result has just come would otherwise miss the batch by a
// moment, and two groups take turns for ever, each paying for a batch of its own. So: the device is
// busy, the fixed cost is most of a batch, at least as many items are expected soon as piled up,
// and they are not all here yet. For half of what merging saves, and early enough for every
// deadline.
TimePoint HoldUntil(const DispatchView& view);

// How soon after a batch an item has to come to count as expected: what HoldUntil() may wait.
Duration LongestHold(Duration window, Duration fixed);

}  // namespace tutti::engine
