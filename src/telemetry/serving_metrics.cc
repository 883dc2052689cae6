#include "telemetry/serving_metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "telemetry/vllm_metrics.h"

namespace tutti::telemetry {
namespace {

double UsageOf(int64_t free, int64_t active, int64_t cached) {
  const int64_t total = free + active + cached;
  return total > 0 ? static_cast<double>(active) / static_cast<double>(total) : 0.0;
}

// The series of one kind of slots: a gauge for each state, and a counter of evictions.
struct SlotSeries {
  SlotSeries(const SeriesMaker& make, const std::string& name, const std::string& help,
             const std::string& evicted_name, const std::string& evicted_help)
      : free(make.Gauge(name, help + ", by state", {{"state", "free"}})),
        active(make.Gauge(name, help + ", by state", {{"state", "active"}})),
        cached(make.Gauge(name, help + ", by state", {{"state", "cached"}})),
        evicted(make.Counter(evicted_name, evicted_help)) {}

  void Set(const ServingMetrics::EngineGauges::Slots& now) {
    free.Set(static_cast<double>(now.free));
    active.Set(static_cast<double>(now.active));
    cached.Set(static_cast<double>(now.cached));
    const int64_t more = now.evicted - told->exchange(now.evicted);
    if (more > 0) evicted.Add(static_cast<double>(more));
  }

  Gauge free, active, cached;
  Counter evicted;
  std::shared_ptr<std::atomic<int64_t>> told = std::make_shared<std::atomic<int64_t>>(0);
};

// Counters of prefixes that are kept in files.
struct PrefixSeries {
  explicit PrefixSeries(const SeriesMaker& make)
      : loads(Loads(make, "complete")),
        partial_loads(Loads(make, "partial")),
        loaded_tokens(make.Counter("tutti_prefix_loaded_tokens_total",
                                   "Tokens of prompts whose KV was read from files")),
        saved(Blocks(make, "saved")),
        dropped(Blocks(make, "dropped")) {}

  void Set(const ServingMetrics::EngineGauges::KeptPrefixes& now) {
    loads.Add(static_cast<double>(
        Difference(now.loads - now.partial_loads, told->loads - told->partial_loads)));
    partial_loads.Add(static_cast<double>(Difference(now.partial_loads, told->partial_loads)));
    loaded_tokens.Add(static_cast<double>(Difference(now.loaded_tokens, told->loaded_tokens)));
    saved.Add(static_cast<double>(Difference(now.saved_blocks, told->saved_blocks)));
    dropped.Add(static_cast<double>(Difference(now.dropped_blocks, told->dropped_blocks)));
    *told = now;
  }

 private:
  static Counter Loads(const SeriesMaker& make, const char* outcome) {
    return make.Counter("tutti_prefix_loads_total",
                        "Prompts whose beginning was read from files, by outcome",
                        {{"outcome", outcome}});
  }
  static Counter Blocks(const SeriesMaker& make, const char* outcome) {
    return make.Counter("tutti_prefix_saved_blocks_total",
                        "Computed KV blocks that were given to the disk or not, by outcome",
                        {{"outcome", outcome}});
  }
  static int64_t Difference(int64_t now, int64_t before) {
    return std::max<int64_t>(now - before, 0);
  }

  Counter loads, partial_loads, loaded_tokens, saved, dropped;
  std::shared_ptr<ServingMetrics::EngineGauges::KeptPrefixes> told =
      std::make_shared<ServingMetrics::EngineGauges::KeptPrefixes>();
};

}  // namespace

struct ServingMetrics::Impl {
  Impl(MetricsRegistry& r, Options o) : options(std::move(o)), make{r, {{"model", options.model}}} {
    if (options.vllm_aliases) vllm.emplace(r, options);
  }

  const Options options;
  const SeriesMaker make;
  std::optional<VllmMetrics> vllm;
  MetricsRegistry::CollectorHandle collector;
  std::function<void(const EngineGauges&)> set_gauges;  // empty without an engine
  std::vector<Gauge> infos;                             // 1 while the model is loaded

  // Hot ones, made at once so that they stand at zero before the first request.
  Histogram ttft =
      make.Histogram("tutti_time_to_first_token_seconds",
                     "Time between acceptance and the first token, in seconds", LatencyBuckets());
  Histogram itl =
      make.Histogram("tutti_inter_token_latency_seconds",
                     "Time between two tokens of a sequence, in seconds", LatencyBuckets());
  Histogram tpot =
      make.Histogram("tutti_time_per_output_token_seconds",
                     "Mean time per output token of a request, in seconds", LatencyBuckets());
  Histogram queue_wait = make.Histogram(
      "tutti_queue_wait_seconds", "Time between acceptance and the first step, in seconds",
      ShortLatencyBuckets(), {{"lane", "interactive"}, {"priority", "interactive"}});
  Histogram prefill = make.Histogram("tutti_prefill_seconds",
                                     "Time between the first step and the first token, in seconds",
                                     LatencyBuckets());
  Histogram decode =
      make.Histogram("tutti_decode_seconds",
                     "Time between the first token and the last, in seconds", LatencyBuckets());
  Histogram prompt_size = make.Histogram("tutti_request_prompt_tokens", "Prompt tokens per request",
                                         SizeBuckets(options.max_model_len));
  Histogram output_size = make.Histogram("tutti_request_output_tokens", "Output tokens per request",
                                         SizeBuckets(options.max_model_len));
  Histogram max_tokens = make.Histogram("tutti_request_max_tokens", "max_tokens per request",
                                        SizeBuckets(options.max_model_len));
  Histogram choices = make.Histogram("tutti_request_n", "Choices (n) per request", ChoiceBuckets());
  Histogram step_tokens = make.Histogram("tutti_step_tokens", "Tokens per step", BatchBuckets());
  Histogram step_sequences =
      make.Histogram("tutti_step_sequences", "Sequences per step", BatchBuckets());
  Counter busy =
      make.Counter("tutti_engine_busy_seconds_total", "Time the engine spent in steps, in seconds");
  Counter output_tokens = make.Counter("tutti_output_tokens_total", "Tokens generated");
  std::array<Counter, 2> prompt_tokens = {PromptTokens("computed"), PromptTokens("prefix")};
  Counter not_finite = make.Counter("tutti_logits_not_finite_total",
                                    "Requests ended because their logits were not finite");
  Counter prefix_queried = make.Counter("tutti_prefix_queried_tokens_total",
                                        "Prompt tokens looked up in the prefix cache");
  Counter prefix_hit =
      make.Counter("tutti_prefix_hit_tokens_total", "Prompt tokens found in the prefix cache");
  SlotSeries kv_blocks{make, "tutti_kv_blocks", "KV blocks", "tutti_kv_evicted_blocks_total",
                       "Cached KV blocks evicted"};
  SlotSeries window_blocks{make, "tutti_kv_window_blocks", "KV blocks of layers with a window",
                           "tutti_kv_evicted_window_blocks_total",
                           "Cached KV blocks of layers with a window evicted"};
  SlotSeries state_slots{make, "tutti_state_slots", "Slots of recurrent states",
                         "tutti_state_evicted_checkpoints_total",
                         "Checkpoints of recurrent states evicted"};
  PrefixSeries prefixes{make};
  Counter drafts = make.Counter("tutti_spec_drafts_total", "Steps that verified draft tokens");
  Counter draft_tokens = make.Counter("tutti_spec_draft_tokens_total", "Draft tokens verified");
  std::array<Counter, kDraftPlaces> accepted_tokens = AcceptedTokens();
  std::array<Histogram, 3> steps = {Step(StepKind::kPrefill), Step(StepKind::kDecode),
                                    Step(StepKind::kMixed)};
  std::array<Counter, 4> finished = {Finished(FinishKind::kStop), Finished(FinishKind::kLength),
                                     Finished(FinishKind::kAbort), Finished(FinishKind::kError)};
  std::array<std::array<Counter, 3>, 3> cancelled = {Cancelled(CancelCause::kDisconnect),
                                                     Cancelled(CancelCause::kDeadline),
                                                     Cancelled(CancelCause::kDrain)};
  std::array<Counter, 2> wasted = {Wasted(WasteCause::kPreemption), Wasted(WasteCause::kCancelled)};
  std::array<Counter, 2> preemptions = {Preemptions(PreemptionCause::kBlocks),
                                        Preemptions(PreemptionCause::kPriority)};

  Counter PromptTokens(const char* source) {
    return make.Counter("tutti_prompt_tokens_total",
                        "Prompt tokens, by source (computed or from the prefix cache)",
                        {{"source", source}});
  }
  Counter Finished(FinishKind reason) {
    return make.Counter("tutti_requests_finished_total", "Requests finished, by reason",
                        {{"finish_reason", LabelOf(reason)}});
  }
  std::array<Counter, 3> Cancelled(CancelCause cause) {
    const auto in = [&](RequestPhase phase) {
      return make.Counter("tutti_requests_cancelled_total", "Requests cancelled",
                          {{"cause", LabelOf(cause)}, {"phase", LabelOf(phase)}});
    };
    return {in(RequestPhase::kQueued), in(RequestPhase::kPrefill), in(RequestPhase::kDecode)};
  }
  Counter Preemptions(PreemptionCause cause) {
    return make.Counter("tutti_preemptions_total", "Sequences preempted",
                        {{"reason", LabelOf(cause)}});
  }
  std::array<Counter, kDraftPlaces> AcceptedTokens() {
    std::array<Counter, kDraftPlaces> out;
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = make.Counter("tutti_spec_accepted_tokens_total", "Draft tokens accepted",
                            {{"position", std::to_string(i)}});
    }
    return out;
  }
  Counter Wasted(WasteCause cause) {
    return make.Counter("tutti_wasted_tokens_total", "Tokens computed in vain, by cause",
                        {{"cause", LabelOf(cause)}});
  }
  Histogram Step(StepKind kind) {
    return make.Histogram("tutti_step_seconds", "Time per step, in seconds", ShortLatencyBuckets(),
                          {{"kind", LabelOf(kind)}});
  }
};

ServingMetrics::ServingMetrics(MetricsRegistry& registry, Options options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {
  const Options& o = impl_->options;
  registry
      .GetGauge("tutti_build_info", "Always 1; the labels describe the build",
                {{"version", o.version}, {"isa", o.isa}})
      .Set(1);
  impl_->infos = {
      impl_->make.Gauge("tutti_model_info", "1 while the model is loaded; the labels describe it",
                        {{"arch", o.architecture},
                         {"quant", o.quantisation},
                         {"digest", o.digest},
                         {"ctx", std::to_string(o.max_model_len)}}),
      impl_->make.Gauge("tutti_cache_config_info",
                        "1 while the model is loaded; the labels describe the KV cache",
                        {{"block_size", std::to_string(o.block_tokens)},
                         {"blocks", std::to_string(o.kv_blocks)}})};
  for (Gauge& info : impl_->infos) info.Set(1);
}

// Counters keep their values for the next load of the model; gauges of an unloaded model are 0.
ServingMetrics::~ServingMetrics() {
  impl_->collector.reset();
  if (impl_->set_gauges) impl_->set_gauges({});
  for (Gauge& info : impl_->infos) info.Set(0);
}

void ServingMetrics::SetEngineGauges(std::function<EngineGauges()> read) {
  Impl& i = *impl_;
  const SeriesMaker& make = i.make;
  // Owns what it touches, handles of the registry all of it: a scrape may be under way when the
  // model is unloaded.
  i.set_gauges =
      [vllm = i.vllm, running = make.Gauge("tutti_running_sequences", "Running sequences"),
       waiting =
           make.Gauge("tutti_waiting_sequences", "Waiting sequences", {{"reason", "capacity"}}),
       deferred =
           make.Gauge("tutti_waiting_sequences", "Waiting sequences", {{"reason", "deferred"}}),
       queue = make.Gauge("tutti_queue_requests", "Requests in the queue",
                          {{"lane", "interactive"}, {"priority", "interactive"}}),
       tokens = make.Gauge("tutti_queue_tokens", "Prompt tokens in the queue",
                           {{"lane", "interactive"}, {"priority", "interactive"}}),
       oldest = make.Gauge("tutti_queue_oldest_seconds",
                           "Age of the oldest request in the queue, in seconds",
                           {{"lane", "interactive"}, {"priority", "interactive"}}),
       blocks = i.kv_blocks, windows = i.window_blocks, states = i.state_slots,
       prefixes = i.prefixes,
       pinned = make.Gauge("tutti_kv_pinned_blocks", "KV blocks held by pinned prefixes"),
       usage = make.Gauge("tutti_kv_usage_ratio", "Share of the KV blocks in use, 0 to 1"),
       heartbeat = make.Gauge("tutti_engine_heartbeat_age_seconds",
                              "Time since the step loop last made progress, in seconds")](
          const EngineGauges& now) mutable {
        // Either kind of blocks may be the one that runs short.
        const EngineGauges::Slots& w = now.window_blocks;
        const double used =
            std::max(UsageOf(now.kv_blocks_free, now.kv_blocks_active, now.kv_blocks_cached),
                     UsageOf(w.free, w.active, w.cached));
        running.Set(now.running);
        waiting.Set(now.waiting - now.waiting_deferred);
        deferred.Set(now.waiting_deferred);
        queue.Set(now.waiting);
        tokens.Set(static_cast<double>(now.waiting_tokens));
        oldest.Set(now.oldest_waiting_s);
        blocks.Set({.free = now.kv_blocks_free,
                    .active = now.kv_blocks_active,
                    .cached = now.kv_blocks_cached,
                    .evicted = now.kv_evicted_blocks});
        windows.Set(w);
        states.Set(now.state_slots);
        prefixes.Set(now.prefixes);
        pinned.Set(static_cast<double>(now.kv_blocks_pinned));
        usage.Set(used);
        heartbeat.Set(now.heartbeat_age_s);
        if (vllm.has_value()) {
          vllm->Gauges(now, used);
        }
      };
  i.collector =
      make.registry.AddCollector([read = std::move(read), set = i.set_gauges] { set(read()); });
}

void ServingMetrics::RequestAccepted(int64_t prompt_tokens, int64_t max_tokens, int n) {
  impl_->prompt_size.Observe(static_cast<double>(prompt_tokens));
  impl_->max_tokens.Observe(static_cast<double>(max_tokens));
  impl_->choices.Observe(n);
  if (impl_->vllm.has_value()) impl_->vllm->RequestAccepted(prompt_tokens, max_tokens, n);
}

void ServingMetrics::RequestRejected(std::string_view code) {
  impl_->make.RejectedRequests(code).Add();
}

void ServingMetrics::RequestCancelled(CancelCause cause, RequestPhase phase) {
  impl_->cancelled[static_cast<size_t>(cause)][static_cast<size_t>(phase)].Add();
}

void ServingMetrics::RequestFinished(const Finished& f) {
  Impl& i = *impl_;
  i.finished[static_cast<size_t>(f.reason)].Add();
  i.output_size.Observe(static_cast<double>(f.output_tokens));
  i.prefill.Observe(ToSeconds(f.prefill));
  i.decode.Observe(ToSeconds(f.decode));
  if (f.output_tokens > 1) i.tpot.Observe(f.SecondsPerToken());
  if (i.vllm.has_value()) i.vllm->RequestFinished(f);
}

void ServingMetrics::FirstToken(Duration since_accepted) {
  impl_->ttft.Observe(ToSeconds(since_accepted));
  if (impl_->vllm.has_value()) impl_->vllm->FirstToken(since_accepted);
}

void ServingMetrics::InterToken(Duration gap, int64_t tokens) {
  for (int64_t k = 0; k < tokens; ++k) {
    impl_->itl.Observe(ToSeconds(gap));
    if (impl_->vllm.has_value()) impl_->vllm->InterToken(gap);
  }
}

void ServingMetrics::QueueWait(Duration wait) { impl_->queue_wait.Observe(ToSeconds(wait)); }

void ServingMetrics::Step(StepKind kind, Duration took, int64_t tokens, int sequences) {
  impl_->steps[static_cast<size_t>(kind)].Observe(ToSeconds(took));
  impl_->step_tokens.Observe(static_cast<double>(tokens));
  impl_->step_sequences.Observe(sequences);
  impl_->busy.Add(ToSeconds(took));
  if (impl_->vllm.has_value()) impl_->vllm->Step(tokens);
}

void ServingMetrics::PromptTokens(PromptSource source, int64_t tokens) {
  impl_->prompt_tokens[static_cast<size_t>(source)].Add(static_cast<double>(tokens));
  if (impl_->vllm.has_value()) impl_->vllm->PromptTokens(source, tokens);
}

void ServingMetrics::BrokenToolCall(std::string_view reason) {
  impl_->make
      .Counter("tutti_broken_tool_calls_total", "Tool calls that could not be parsed, by reason",
               {{"reason", std::string(reason)}})
      .Add();
}

void ServingMetrics::LogitsNotFinite() { impl_->not_finite.Add(1); }

void ServingMetrics::OutputTokens(int64_t tokens) {
  impl_->output_tokens.Add(static_cast<double>(tokens));
  if (impl_->vllm.has_value()) impl_->vllm->OutputTokens(tokens);
}

void ServingMetrics::PrefixLookup(int64_t queried_tokens, int64_t hit_tokens) {
  impl_->prefix_queried.Add(static_cast<double>(queried_tokens));
  impl_->prefix_hit.Add(static_cast<double>(hit_tokens));
  if (impl_->vllm.has_value()) impl_->vllm->PrefixLookup(queried_tokens, hit_tokens);
}

void ServingMetrics::Speculation(int64_t proposed, std::span<const int> accepted) {
  impl_->drafts.Add();
  impl_->draft_tokens.Add(static_cast<double>(proposed));
  for (size_t i = 0; i < std::min(accepted.size(), impl_->accepted_tokens.size()); ++i) {
    if (accepted[i] > 0) impl_->accepted_tokens[i].Add(accepted[i]);
  }
  if (impl_->vllm.has_value()) impl_->vllm->Speculation(proposed, accepted);
}

void ServingMetrics::Preemption(PreemptionCause cause) {
  impl_->preemptions[static_cast<size_t>(cause)].Add();
  if (impl_->vllm.has_value()) impl_->vllm->Preemption();
}

void ServingMetrics::WastedTokens(WasteCause cause, int64_t tokens) {
  impl_->wasted[static_cast<size_t>(cause)].Add(static_cast<double>(tokens));
}

}  // namespace tutti::telemetry
