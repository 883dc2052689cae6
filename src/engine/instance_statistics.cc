#include "engine/instance_statistics.h"

#include <algorithm>
#include <utility>

#include "engine/policy/admission.h"

namespace tutti::engine {

namespace {

// A moving average over about 16 samples; zero before the first.
void AverageService(double& average, double sample) {
  average += average == 0 ? sample : (sample - average) / 16;
}

}  // namespace

InstanceStatistics::InstanceStatistics(std::shared_ptr<AdmissionState> admission, int kv_blocks)
    : admission_(std::move(admission)), kv_blocks_(kv_blocks) {
  count_.kv_blocks_total = count_.kv_blocks_free = kv_blocks;
  published_.Store({.stats = count_});
}

void InstanceStatistics::ServiceTook(Duration took) {
  AverageService(service_ns_, static_cast<double>(took.count()));
  admission_->service_ns.store(static_cast<int64_t>(service_ns_), std::memory_order_relaxed);
}

void InstanceStatistics::Publish(const Scheduler& scheduler, const kv::KvBlockPool& pool,
                                 int live_choices, const TransferStats& transfer,
                                 int pinned_blocks) {
  count_.kv_blocks_pinned = pinned_blocks;
  count_.running = scheduler.running();
  count_.waiting_capacity = scheduler.waiting();
  count_.waiting_deferred = live_choices - count_.running - count_.waiting_capacity;
  count_.kv_blocks_free = pool.free();
  count_.kv_blocks_cached = pool.cached();
  count_.kv_blocks_active = kv_blocks_ - pool.free() - pool.cached();
  const kv::SlotPool& window_blocks = pool.window_blocks();
  count_.window_blocks_total = window_blocks.total();
  count_.window_blocks_free = window_blocks.free();
  count_.window_blocks_active = window_blocks.active();
  count_.window_blocks_cached = window_blocks.cached();
  count_.evicted_window_blocks = window_blocks.evicted();
  const kv::SlotPool& states = pool.states();
  count_.state_slots_total = states.total();
  count_.state_slots_free = states.free();
  count_.state_slots_active = states.active();
  count_.state_slots_cached = states.cached();
  count_.evicted_checkpoints = states.evicted();
  count_.kv_waste_tokens = scheduler.unused_slots();
  count_.preemptions = scheduler.preemptions();
  count_.kv_evicted_blocks = pool.evicted();
  count_.prefix_loads = transfer.loads;
  count_.failed_prefix_loads = transfer.failed_loads;
  count_.loaded_prefix_tokens = transfer.loaded_tokens;
  count_.saved_prefix_blocks = transfer.saved_blocks;
  count_.dropped_prefix_blocks = transfer.dropped_blocks;
  published_.Store({.stats = count_, .oldest_waiting = scheduler.OldestWaiting()});
}

EngineStats InstanceStatistics::Snapshot(TimePoint now) const {
  const Figures figures = published_.Load();
  EngineStats s = figures.stats;
  s.max_num_seqs = admission_->max_num_seqs;
  s.preparing = admission_->preparing.load();
  s.queued_prompt_tokens = admission_->queued_tokens.load();
  s.queued_bytes = admission_->queued_bytes.load();
  s.oldest_waiting = figures.oldest_waiting > now ? Duration(0) : now - figures.oldest_waiting;
  s.predicted_wait = PredictWait(admission_->places.load(), s.max_num_seqs,
                                 Duration(admission_->service_ns.load()));
  s.refused = admission_->refused.load();
  return s;
}

api::LoadSnapshot InstanceStatistics::Load() const {
  const EngineStats stats = published_.Load().stats;
  api::LoadSnapshot load;
  load.running = stats.running;
  load.waiting = std::max(0, admission_->unfinished.load() - load.running);
  load.max_num_seqs = admission_->max_num_seqs;
  load.kv_blocks_total = kv_blocks_;
  load.level = admission_->Level();
  load.kv_blocks_used = kv_blocks_ - stats.kv_blocks_free - stats.kv_blocks_cached;
  return load;
}

}  // namespace tutti::engine
