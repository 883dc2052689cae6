// Dispatch: decides when an encoder's next batch starts. Pure.
//
// An idle device starts a batch of all waiting items at once: no timer delays a request that
// arrived while the device was idle. Only if requests piled up behind a batch may the next batch be
// held back for requests about to arrive, and only while that saves device time: see HoldUntil().
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti::engine {

// Why a batch started when it did; a label of metrics.
enum class DispatchReason : uint8_t {
  kFull,      // the batch was full: in items, tokens or time
  kIdle,      // the device was free; the batch has all waiting items
  kDeadline,  // the batch was held back until its time was over or the expected items had arrived
  kAge,       // full, with items that must not be passed over again
};
inline constexpr int kDispatchReasons = 4;

struct DispatchView {
  TimePoint now{};
  TimePoint oldest{};                     // arrival of the first of the waiting items
  TimePoint deadline = TimePoint::max();  // the first of the waiting requests' deadlines
  TimePoint last_end = TimePoint::min();  // of the last batch; min() = none yet
  int items = 0;                          // waiting
  int piled_up = 0;                       // of these, arrived before last_end
  double expected = 0;                    // items that usually come soon after such a batch
  bool full = false;                      // what waits fills a batch
  double busy = 0;                        // share of the time lately in which batches ran
  Duration fixed{0};                      // cost of a batch, independent of its items
  Duration estimate{0};                   // of a batch of what waits
  Duration window{0};                     // longest delay; 0 = never hold back
};

// Time at which the next batch should start; `now` or before: at once. Holding back pays if clients
// send their next request as soon as they get a result: clients whose result has just arrived would
// otherwise miss the batch by a moment, and two groups of clients would alternate forever, each
// paying the fixed cost of its own batch. So a batch is held back only while the device is busy,
// the fixed cost is most of a batch, at least as many items are expected soon as piled up, and not
// all of them have arrived. It is held back for at most half of the time that merging saves, and
// never past a deadline.
TimePoint HoldUntil(const DispatchView& view);

// Maximum time that HoldUntil() holds a batch back. An item that arrives within it after a batch
// counts as expected.
Duration LongestHold(Duration window, Duration fixed);

}  // namespace tutti::engine
