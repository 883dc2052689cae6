// Dispatch: decides when an encoder's next batch starts, from what waits and from its recent load.
// Plain values; the functions are pure.
//
// An idle device starts a batch of all waiting items at once: no timer delays a request that
// arrived while the device was idle. Only if requests piled up behind a batch may the next batch be
// held back for requests about to arrive, and only while that saves device time: see HoldUntil().
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
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

// Below this share the device has time to spare: saving some of it is worth no wait.
inline constexpr double kBusyKnee = 0.5;

// Maximum time that HoldUntil() holds a batch back. An item that arrives within it after a batch
// counts as expected.
inline Duration LongestHold(Duration window, Duration fixed) { return std::min(window, fixed / 2); }

// Time at which the next batch should start; `now` or before: at once. Holding back pays if clients
// send their next request as soon as they get a result: clients whose result has just arrived would
// otherwise miss the batch by a moment, and two groups of clients would alternate forever, each
// paying the fixed cost of its own batch. So a batch is held back only while the device is busy,
// the fixed cost is most of a batch, at least as many items are expected soon as piled up, and not
// all of them have arrived. It is held back for at most half of the time that merging saves, and
// never past a deadline.
inline TimePoint HoldUntil(const DispatchView& v) {
  if (v.full || v.window.count() <= 0 || v.items == 0) return v.now;
  if (v.last_end == TimePoint::min() || v.oldest >= v.last_end) return v.now;  // it was free
  const bool pays = v.busy >= kBusyKnee && v.fixed * 2 >= v.estimate &&
                    v.expected >= std::max(v.piled_up, 1) &&
                    v.items < std::floor(v.piled_up + v.expected + 0.5);
  if (!pays) return v.now;
  TimePoint until = std::min(v.last_end + LongestHold(v.window, v.fixed), v.oldest + v.window);
  if (v.deadline != TimePoint::max()) until = std::min(until, v.deadline - v.estimate * 2);
  return std::max(until, v.now);
}

// The share of about the last quarter of a second in which batches ran.
class RecentBusy {
 public:
  void Ran(TimePoint begin, TimePoint end) {
    busy_ = busy_ * Kept(end - until_) + (1 - Kept(end - begin));
    until_ = end;
  }
  double share(TimePoint now) const { return busy_ * Kept(now - until_); }  // 0..1

 private:
  static constexpr Duration kMemory = std::chrono::milliseconds(250);
  static double Kept(Duration passed) { return std::exp(-ToSeconds(passed) / ToSeconds(kMemory)); }
  double busy_ = 0;
  TimePoint until_{};
};

// Number of items that arrive soon after a batch for each item that it delivered: about one if
// clients send their next request as soon as they have a result; half or less if they do not.
class ReturnRate {
 public:
  // A batch of `items` ended at `end`; items that arrive until `end + soon` count.
  void Ended(TimePoint end, int items, Duration soon) {
    // All items that arrived after the batch before the last one are known by now.
    if (before_.items > 0) {
      const double rate = static_cast<double>(before_.came) / before_.items;
      rate_ += (std::min(rate, 2.0) - rate_) / 8;
    }
    before_ = last_;
    last_ = {end, soon, items, 0};
  }
  void Came(int items, TimePoint at) {
    Batch& batch = at > last_.end ? last_ : before_;
    if (at > batch.end && at - batch.end <= batch.soon) batch.came += items;
  }
  // Items expected after the last batch.
  double expected() const { return rate_ * last_.items; }

 private:
  struct Batch {
    TimePoint end{};
    Duration soon{0};
    int items = 0, came = 0;
  };
  Batch before_, last_;
  double rate_ = 0;
};

}  // namespace tutti::engine
