// The four scheduling strategies: each is defined by the answers of these four functions, the rest
// of the engine is the same for all. Pure functions over plain values.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "engine/options.h"

namespace tutti::engine {

// How many sequences may run together.
inline int MaxNumSeqs(const SchedulerOptions& options) {
  if (options.strategy == Strategy::kBlocking) return 1;
  return std::max(1, options.strategy == Strategy::kStatic
                         ? std::min(options.max_num_seqs, options.static_batch)
                         : options.max_num_seqs);
}

// Whether one forward pass serves all active sequences, or each gets its own in turn.
inline bool SharedForward(Strategy strategy) { return strategy != Strategy::kInterleaved; }

// Whether a choice waits for a sibling that is computing their common prompt, and a request for
// another that is computing a beginning of its prompt, rather than computing it again.
inline bool WaitsForSibling(Strategy strategy) {
  return strategy == Strategy::kContinuous || strategy == Strategy::kInterleaved;
}

struct QueueView {
  int running = 0;             // sequences that run
  int waiting = 0;             // sequences that want one
  TimePoint oldest_waiting{};  // arrival of the first of them
  TimePoint now{};
};

// Earliest time of the next admission: now or before = at once; later = not before that time
// (static batches fill up); TimePoint::max() = not until something changes.
inline TimePoint AdmissionOpens(const SchedulerOptions& options, const QueueView& queue) {
  if (queue.waiting == 0) return TimePoint::max();
  if (options.strategy != Strategy::kStatic) {
    return queue.running < MaxNumSeqs(options) ? queue.now : TimePoint::max();
  }
  if (queue.running > 0) return TimePoint::max();  // the batch runs to its end
  return queue.waiting >= MaxNumSeqs(options) ? queue.now
                                              : queue.oldest_waiting + options.static_wait;
}

}  // namespace tutti::engine
