#include "engine/policy/strategy.h"

#include <algorithm>

namespace tutti::engine {

int MaxNumSeqs(const SchedulerOptions& options) {
  switch (options.strategy) {
    case Strategy::kBlocking:
      return 1;
    case Strategy::kStatic:
      return std::max(1, std::min(options.max_num_seqs, options.static_batch));
    case Strategy::kContinuous:
    case Strategy::kInterleaved:
      break;
  }
  return std::max(1, options.max_num_seqs);
}

bool SharedForward(Strategy strategy) { return strategy != Strategy::kInterleaved; }

bool WaitsForSibling(Strategy strategy) {
  return strategy == Strategy::kContinuous || strategy == Strategy::kInterleaved;
}

TimePoint AdmissionOpens(const SchedulerOptions& options, const QueueView& queue) {
  if (queue.waiting == 0) return TimePoint::max();
  if (options.strategy != Strategy::kStatic) {
    return queue.running < MaxNumSeqs(options) ? queue.now : TimePoint::max();
  }
  if (queue.running > 0) return TimePoint::max();  // the batch runs to its end
  return queue.waiting >= MaxNumSeqs(options) ? queue.now
                                              : queue.oldest_waiting + options.static_wait;
}

}  // namespace tutti::engine
