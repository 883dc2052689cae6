#include "engine/instance_statistics.h"

#include <algorithm>
#include <utility>

#include "engine/policy/wait_estimate.h"

namespace tutti::engine {

namespace {

// A moving average over about 16 samples; zero before the first.
void AverageService(double& average, double sample) {
  average += average == 0 ? sample : (sample - average) / 16;
}

}  // namespace

InstanceStatistics::InstanceStatistics(std::shared_ptr<const Mailbox> mailbox,
                                       std::shared_ptr<AdmissionState> ledger, int kv_blocks)
    : mailbox_(std::move(mailbox)), ledger_(std::move(ledger)), kv_blocks_(kv_blocks) {
  published_.kv_free.store(kv_blocks);
}

void InstanceStatistics::StepTook(Duration took) {
  ++count_.steps;
  count_.busy += took;
  pulse_.StepTook(took);
}

void InstanceStatistics::ServiceTook(Duration took) {
  AverageService(service_ns_, static_cast<double>(took.count()));
  ledger_->service_ns.store(static_cast<int64_t>(service_ns_), std::memory_order_relaxed);
}

void InstanceStatistics::Publish(const Scheduler& scheduler, const kv::KvBlockPool& pool,
                                 int live_choices, bool has_requests, TimePoint now) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const int running = scheduler.running(), waiting = scheduler.waiting();
  published_.running.store(running, kRelaxed);
  published_.waiting.store(waiting, kRelaxed);
  published_.deferred.store(live_choices - running - waiting, kRelaxed);
  published_.kv_free.store(pool.free(), kRelaxed);
  published_.kv_cached.store(pool.cached(), kRelaxed);
  published_.kv_waste.store(scheduler.unused_slots(), kRelaxed);
  published_.oldest_ns.store(scheduler.OldestWaiting().time_since_epoch().count(), kRelaxed);
  published_.steps.store(count_.steps, kRelaxed);
  published_.prompt_tokens.store(count_.prompt_tokens, kRelaxed);
  published_.output_tokens.store(count_.output_tokens, kRelaxed);
  published_.preemptions.store(scheduler.preemptions(), kRelaxed);
  published_.prefix_queried.store(count_.prefix_queried, kRelaxed);
  published_.prefix_hits.store(count_.prefix_hits, kRelaxed);
  published_.evicted.store(pool.evicted(), kRelaxed);
  published_.wasted.store(count_.wasted, kRelaxed);
  published_.reader_pauses.store(count_.reader_pauses, kRelaxed);
  published_.reader_cancels.store(count_.reader_cancels, kRelaxed);
  published_.finished.store(count_.finished, kRelaxed);
  published_.draft_steps.store(count_.draft_steps, kRelaxed);
  published_.draft_tokens.store(count_.draft_tokens, kRelaxed);
  published_.accepted_tokens.store(count_.accepted_tokens, kRelaxed);
  published_.busy_ns.store(count_.busy.count(), kRelaxed);
  pulse_.Publish(has_requests, now);
}

EngineStats InstanceStatistics::Snapshot(TimePoint now) const {
  EngineStats s;
  s.max_num_seqs = ledger_->max_num_seqs;
  s.running = published_.running.load();
  s.waiting_capacity = published_.waiting.load();
  s.waiting_deferred = published_.deferred.load();
  s.preparing = ledger_->preparing.load();
  s.queued_prompt_tokens = ledger_->queued_tokens.load();
  s.queued_bytes = ledger_->queued_bytes.load();
  const TimePoint oldest{Duration(published_.oldest_ns.load())};
  s.oldest_waiting = oldest == TimePoint::max() || oldest > now ? Duration(0) : now - oldest;
  s.predicted_wait =
      PredictWait(ledger_->places.load(), s.max_num_seqs, Duration(ledger_->service_ns.load()));
  s.kv_blocks_total = kv_blocks_;
  s.kv_blocks_free = published_.kv_free.load();
  s.kv_blocks_cached = published_.kv_cached.load();
  s.kv_blocks_active = s.kv_blocks_total - s.kv_blocks_free - s.kv_blocks_cached;
  s.kv_waste_tokens = published_.kv_waste.load();
  s.steps = published_.steps.load();
  s.prompt_tokens_computed = published_.prompt_tokens.load();
  s.output_tokens = published_.output_tokens.load();
  s.preemptions = published_.preemptions.load();
  s.prefix_queried_tokens = published_.prefix_queried.load();
  s.prefix_hit_tokens = published_.prefix_hits.load();
  s.kv_evicted_blocks = published_.evicted.load();
  s.wasted_tokens = published_.wasted.load();
  s.reader_pauses = published_.reader_pauses.load();
  s.reader_cancels = published_.reader_cancels.load();
  s.refused = ledger_->refused.load();
  s.finished = published_.finished.load();
  s.draft_steps = published_.draft_steps.load();
  s.draft_tokens = published_.draft_tokens.load();
  s.accepted_tokens = published_.accepted_tokens.load();
  s.busy = Duration(published_.busy_ns.load());
  return s;
}

api::LoadSnapshot InstanceStatistics::Load() const {
  api::LoadSnapshot load;
  load.running = published_.running.load();
  load.waiting = std::max(0, ledger_->unfinished.load() - load.running);
  load.max_num_seqs = ledger_->max_num_seqs;
  load.kv_blocks_total = kv_blocks_;
  load.level = ledger_->Level();
  load.kv_blocks_used = kv_blocks_ - published_.kv_free.load() - published_.kv_cached.load();
  return load;
}

}  // namespace tutti::engine
