// Statistics of a model since it was made, for the statistics extension of KServe v2: counts and
// summed times, from which clients compute differences. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "protocol/kserve/model.h"

namespace tutti::kserve {

struct DurationStat {
  uint64_t count = 0;
  uint64_t ns = 0;
  void Add(Duration took, uint64_t times = 1) {
    count += times;
    ns += static_cast<uint64_t>(took.count());
  }
};

struct BatchStat {
  uint64_t batch_size = 0;
  DurationStat input, infer, output;
};

struct StatisticsSnapshot {
  std::string name, version;
  int64_t last_inference_ms = 0;                            // unix
  uint64_t inference_count = 0;                             // batch items that were inferred
  uint64_t execution_count = 0;                             // executions of the model for them
  DurationStat success, fail, queue, input, infer, output;  // success and fail: whole requests
  std::vector<BatchStat> batches;                           // by size
};

class Statistics {
 public:
  void Success(Duration took, const Spent& spent, int64_t unix_ms);
  void Fail(Duration took);

  StatisticsSnapshot Read() const;  // without names

 private:
  // Sizes of a request's batch; those of a hostile client must not fill the memory.
  static constexpr size_t kMaxBatches = 256;

  mutable Mutex mutex_;
  StatisticsSnapshot sum_ GUARDED_BY(mutex_);
  std::map<uint64_t, BatchStat> batches_ GUARDED_BY(mutex_);
};

}  // namespace tutti::kserve
