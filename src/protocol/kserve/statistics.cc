#include "protocol/kserve/statistics.h"

namespace tutti::kserve {

void Statistics::Success(Duration took, const Spent& spent, int64_t unix_ms) {
  const MutexLock lock(mutex_);
  sum_.last_inference_ms = unix_ms;
  sum_.inference_count += spent.items;
  sum_.execution_count += spent.executions;
  sum_.success.Add(took);
  sum_.queue.Add(spent.queue);
  sum_.input.Add(spent.input);
  sum_.infer.Add(spent.infer);
  sum_.output.Add(spent.output);
  // Executions that the model counts itself are shared with other requests: their batches are not
  // this request's.
  if (spent.executions == 0) return;
  const auto known = batches_.find(spent.items);
  if (known == batches_.end() && batches_.size() >= kMaxBatches) return;
  BatchStat& batch = batches_[spent.items];
  batch.batch_size = spent.items;
  batch.input.Add(spent.input, spent.executions);
  batch.infer.Add(spent.infer, spent.executions);
  batch.output.Add(spent.output, spent.executions);
}

void Statistics::Fail(Duration took) {
  const MutexLock lock(mutex_);
  sum_.fail.Add(took);
}

StatisticsSnapshot Statistics::Read() const {
  const MutexLock lock(mutex_);
  StatisticsSnapshot snapshot = sum_;
  for (const auto& [size, batch] : batches_) snapshot.batches.push_back(batch);
  return snapshot;
}

}  // namespace tutti::kserve
