#include "gateway/engine_ports.h"

namespace tutti::gateway {
namespace {

using telemetry::CancelCause;
using telemetry::FinishKind;
using telemetry::PreemptionCause;
using telemetry::PromptSource;
using telemetry::RequestPhase;
using telemetry::ServingMetrics;
using telemetry::StepKind;
using telemetry::WasteCause;

RequestPhase PhaseOf(engine::Phase phase) {
  switch (phase) {
    case engine::Phase::kQueued:
      return RequestPhase::kQueued;
    case engine::Phase::kPrefill:
      return RequestPhase::kPrefill;
    case engine::Phase::kDecode:
      return RequestPhase::kDecode;
  }
  return RequestPhase::kDecode;
}

}  // namespace

void EngineMetrics::OnStep(const engine::StepEvent& event) {
  const StepKind kind = event.prefill_tokens == 0     ? StepKind::kDecode
                        : event.decode_sequences == 0 ? StepKind::kPrefill
                                                      : StepKind::kMixed;
  if (event.draft_tokens > 0) metrics_.Speculation(event.draft_tokens, event.accepted_drafts);
  metrics_.Step(kind, event.end - event.begin,
                event.decode_sequences + event.draft_tokens + event.prefill_tokens,
                event.decode_sequences + event.prefill_sequences);
  if (event.prefill_tokens > 0)
    metrics_.PromptTokens(PromptSource::kComputed, event.prefill_tokens);
  if (event.output_tokens > 0) metrics_.OutputTokens(event.output_tokens);
}

void EngineMetrics::OnPrefixLookup(int queried_tokens, int hit_tokens) {
  metrics_.PrefixLookup(queried_tokens, hit_tokens);
  if (hit_tokens > 0) metrics_.PromptTokens(PromptSource::kPrefix, hit_tokens);
}

void EngineMetrics::OnPreemption(std::string_view reason, int tokens_to_recompute) {
  metrics_.Preemption(reason == "lane" ? PreemptionCause::kPriority : PreemptionCause::kBlocks);
  metrics_.WastedTokens(WasteCause::kPreemption, tokens_to_recompute);
}

void EngineMetrics::OnFinished(const engine::RequestEvent& event) {
  ServingMetrics::Finished finished;
  finished.output_tokens = event.usage.completion_tokens;
  finished.queue = event.timings.queue;
  finished.prefill = event.timings.prefill;
  finished.decode = event.timings.decode;
  finished.total =
      event.timings.prepare + event.timings.queue + event.timings.prefill + event.timings.decode;
  finished.preemptions = event.preemptions;
  if (event.status.ok()) {
    finished.reason =
        event.finish_reason == api::FinishReason::kLength ? FinishKind::kLength : FinishKind::kStop;
  } else if (event.status.code() == StatusCode::kCancelled) {
    finished.reason = FinishKind::kAbort;
    metrics_.RequestCancelled(CancelCause::kDisconnect, PhaseOf(event.phase));
  } else if (event.status.code() == StatusCode::kDeadlineExceeded) {
    finished.reason = FinishKind::kAbort;
    metrics_.RequestCancelled(CancelCause::kDeadline, PhaseOf(event.phase));
  } else if (event.status.reason() == "draining") {
    finished.reason = FinishKind::kAbort;
    metrics_.RequestCancelled(CancelCause::kDrain, PhaseOf(event.phase));
  } else {
    finished.reason = FinishKind::kError;
    if (event.status.reason() == "logits_not_finite") metrics_.LogitsNotFinite();
  }
  if (event.wasted_tokens > 0 && !event.status.ok())
    metrics_.WastedTokens(WasteCause::kCancelled, event.wasted_tokens);
  metrics_.RequestFinished(finished);
}

void EncoderEngineMetrics::OnBatch(const engine::BatchEvent& event) {
  static_assert(static_cast<int>(engine::DispatchReason::kAge) ==
                static_cast<int>(telemetry::DispatchCause::kAge));
  telemetry::EncoderMetrics::Batch batch;
  batch.cause = static_cast<telemetry::DispatchCause>(event.reason);
  batch.items = event.items;
  batch.tokens = event.tokens;
  batch.padding = static_cast<int64_t>(event.items) * event.longest - event.tokens;
  batch.took = event.end - event.begin;
  batch.forward = event.forward;
  metrics_.BatchRan(batch);
}

void EncoderEngineMetrics::OnFinished(const engine::EncodingEvent& event) {
  telemetry::EncoderMetrics::Finished finished;
  const bool left = event.status.code() == StatusCode::kCancelled ||
                    event.status.code() == StatusCode::kDeadlineExceeded ||
                    event.status.reason() == "draining";
  finished.reason = event.status.ok() ? FinishKind::kStop
                    : left            ? FinishKind::kAbort
                                      : FinishKind::kError;
  finished.prepare = event.timings.prepare;
  finished.queue = event.timings.queue;
  finished.inference = event.timings.inference;
  finished.wasted_tokens = event.wasted_tokens;
  metrics_.RequestFinished(finished);
}

telemetry::EncoderMetrics::Gauges ReadGauges(const engine::EncoderEngine& engine,
                                             const Clock& clock) {
  const engine::EncoderStats stats = engine.stats();
  const engine::Heartbeat heartbeat = engine.heartbeat();
  telemetry::EncoderMetrics::Gauges gauges;
  gauges.requests = stats.requests;
  gauges.waiting_items = stats.waiting_items;
  gauges.waiting_tokens = stats.waiting_tokens;
  gauges.oldest_waiting_s = ToSeconds(stats.oldest_waiting);
  gauges.predicted_wait_s = ToSeconds(stats.predicted_wait);
  gauges.heartbeat_age_s = heartbeat.busy ? ToSeconds(clock.Now() - heartbeat.last_round) : 0.0;
  return gauges;
}

ServingMetrics::EngineGauges ReadGauges(const engine::Engine& engine, const Clock& clock) {
  const engine::EngineStats stats = engine.stats();
  const engine::Heartbeat heartbeat = engine.heartbeat();
  ServingMetrics::EngineGauges gauges;
  gauges.running = stats.running;
  gauges.waiting = stats.waiting_capacity + stats.preparing;
  gauges.waiting_deferred = stats.waiting_deferred;
  gauges.waiting_tokens = stats.queued_prompt_tokens;
  gauges.oldest_waiting_s = ToSeconds(stats.oldest_waiting);
  gauges.kv_blocks_free = stats.kv_blocks_free;
  gauges.kv_blocks_active = stats.kv_blocks_active;
  gauges.kv_blocks_cached = stats.kv_blocks_cached;
  gauges.kv_blocks_pinned = stats.kv_blocks_pinned;
  gauges.kv_evicted_blocks = static_cast<int64_t>(stats.kv_evicted_blocks);
  gauges.window_blocks = {.free = stats.window_blocks_free,
                          .active = stats.window_blocks_active,
                          .cached = stats.window_blocks_cached,
                          .evicted = static_cast<int64_t>(stats.evicted_window_blocks)};
  gauges.state_slots = {.free = stats.state_slots_free,
                        .active = stats.state_slots_active,
                        .cached = stats.state_slots_cached,
                        .evicted = static_cast<int64_t>(stats.evicted_checkpoints)};
  gauges.prefixes = {.loads = static_cast<int64_t>(stats.prefix_loads),
                     .partial_loads = static_cast<int64_t>(stats.failed_prefix_loads),
                     .loaded_tokens = static_cast<int64_t>(stats.loaded_prefix_tokens),
                     .saved_blocks = static_cast<int64_t>(stats.saved_prefix_blocks),
                     .dropped_blocks = static_cast<int64_t>(stats.dropped_prefix_blocks)};
  gauges.heartbeat_age_s = heartbeat.busy ? ToSeconds(clock.Now() - heartbeat.last_round) : 0.0;
  return gauges;
}

}  // namespace tutti::gateway
