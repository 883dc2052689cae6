#include "base/serving_metrics.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "base/mutex.h"

namespace tutti {
namespace {

const char* Name(DoorKind door) {
  constexpr std::array kNames = {"http", "grpc", "ws", "mqtt", "job", "lib"};
  return kNames[static_cast<size_t>(door)];
}
const char* Name(OpKind op) {
  constexpr std::array kNames = {"chat", "completion", "generate", "tokenize", "other"};
  return kNames[static_cast<size_t>(op)];
}
const char* Name(CancelCause cause) {
  constexpr std::array kNames = {"disconnect", "deadline", "api", "drain"};
  return kNames[static_cast<size_t>(cause)];
}
const char* Name(RequestPhase phase) {
  constexpr std::array kNames = {"queued", "prefill", "decode"};
  return kNames[static_cast<size_t>(phase)];
}
const char* Name(StepKind kind) {
  constexpr std::array kNames = {"prefill", "decode", "mixed"};
  return kNames[static_cast<size_t>(kind)];
}
const char* Name(FinishKind kind) {
  constexpr std::array kNames = {"stop", "length", "abort", "error"};
  return kNames[static_cast<size_t>(kind)];
}

const char* Name(WasteCause cause) {
  constexpr std::array kNames = {"preemption", "cancelled"};
  return kNames[static_cast<size_t>(cause)];
}

constexpr std::array kStages = {"parse", "auth",    "template", "tokenize",
                                "queue", "prefill", "decode",   "write"};
// Status codes that doors answer with; any other is counted through the registry.
constexpr std::array kCodes = {200, 204, 400, 401, 403, 404, 405, 408, 409, 411, 413, 414, 415,
                               417, 421, 422, 426, 429, 431, 499, 500, 501, 503, 504, 505};
constexpr size_t kDoors = 6, kOps = 5;

template <typename Values, typename Value>
size_t IndexOf(const Values& values, const Value& value) {
  size_t i = 0;
  while (i < values.size() && value != values[i]) ++i;
  return i;
}

// A series that is made when it is first used: its label sets are too many to stand at zero. After
// that a look at it costs one load.
template <typename Handle>
class LazySeries {
 public:
  template <typename Make>
  Handle& Get(Mutex& mutex, Make make) {
    if (!made_.load(std::memory_order_acquire)) {
      const MutexLock lock(mutex);
      if (!made_.load(std::memory_order_relaxed)) {
        handle_ = make();
        made_.store(true, std::memory_order_release);
      }
    }
    return handle_;
  }

 private:
  std::atomic<bool> made_{false};
  Handle handle_;
};

// Buckets that the vllm:* histograms have in vLLM, so that boards and alerts fit.
const Buckets kVllmTtft = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                           1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kVllmItl = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                          .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Buckets kVllmLatency = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                              30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

}  // namespace

// The alias set. Only made when asked for; its handles are then never null.
struct VllmMetrics {
  VllmMetrics(MetricsRegistry& r, const ServingMetrics::Options& options)
      : registry(r), labels({{"model_name", options.model}, {"engine", "0"}}) {
    const Buckets sizes = SizeBuckets(options.max_model_len);
    running = Gauge_("num_requests_running", "Requests in the running batch");
    waiting = Gauge_("num_requests_waiting", "Requests waiting to be scheduled");
    waiting_capacity = Gauge_("num_requests_waiting_by_reason", "Waiting requests by reason",
                              {{"reason", "capacity"}});
    waiting_deferred = Gauge_("num_requests_waiting_by_reason", "Waiting requests by reason",
                              {{"reason", "deferred"}});
    kv_usage = Gauge_("kv_cache_usage_perc", "KV cache in use, 0 to 1");
    Gauge_("cache_config_info", "Shape of the KV cache",
           {{"block_size", std::to_string(options.block_tokens)},
            {"num_gpu_blocks", std::to_string(options.kv_blocks)}})
        .Set(1);
    Gauge_("lora_requests_info", "Adapters in use",
           {{"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}, {"max_lora", "0"}})
        .Set(1);
    Gauge_("engine_sleep_state", "1 for the state the engine is in", {{"sleep_state", "awake"}})
        .Set(1);
    prefix_queries =
        Counter_("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache");
    prefix_hits = Counter_("prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
    prompt_tokens = Counter_("prompt_tokens_total", "Prompt tokens processed");
    prompt_cached =
        Counter_("prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache");
    prompt_by_source[0] = Counter_("prompt_tokens_by_source_total", "Prompt tokens by source",
                                   {{"source", "local_compute"}});
    prompt_by_source[1] = Counter_("prompt_tokens_by_source_total", "Prompt tokens by source",
                                   {{"source", "local_cache_hit"}});
    generation_tokens = Counter_("generation_tokens_total", "Tokens generated");
    preemptions = Counter_("num_preemptions_total", "Sequences preempted");
    for (size_t i = 0; i < success.size(); ++i) {
      success[i] = Counter_("request_success_total", "Finished requests",
                            {{"finished_reason", Name(static_cast<FinishKind>(i))}});
    }
    ttft = Histogram_("time_to_first_token_seconds", "Time to first token", kVllmTtft);
    itl = Histogram_("inter_token_latency_seconds", "Time between tokens", kVllmItl);
    tpot = Histogram_("request_time_per_output_token_seconds",
                      "Mean time per output token of a request", kVllmItl);
    e2e = Histogram_("e2e_request_latency_seconds", "Whole time of a request", kVllmLatency);
    queue = Histogram_("request_queue_time_seconds", "Time in the queue", kVllmLatency);
    inference = Histogram_("request_inference_time_seconds", "Time from first lane to last token",
                           kVllmLatency);
    prefill = Histogram_("request_prefill_time_seconds", "Time of the prefill", kVllmLatency);
    decode = Histogram_("request_decode_time_seconds", "Time of the decode", kVllmLatency);
    request_prompt = Histogram_("request_prompt_tokens", "Prompt tokens of a request", sizes);
    request_generation =
        Histogram_("request_generation_tokens", "Output tokens of a request", sizes);
    request_max_generation =
        Histogram_("request_max_num_generation_tokens", "Longest choice of a request", sizes);
    params_max_tokens = Histogram_("request_params_max_tokens", "max_tokens of a request", sizes);
    params_n = Histogram_("request_params_n", "n of a request", ChoiceBuckets());
    iteration_tokens = Histogram_("iteration_tokens_total", "Tokens of a step", BatchBuckets());
    request_preemptions =
        Histogram_("request_num_preemptions", "Preemptions of a request", ChoiceBuckets());
  }

  Gauge Gauge_(const std::string& name, const std::string& help, MetricLabels more = {}) {
    more.insert(labels.begin(), labels.end());
    return registry.GetGauge("vllm:" + name, help, std::move(more));
  }
  Counter Counter_(const std::string& name, const std::string& help, MetricLabels more = {}) {
    more.insert(labels.begin(), labels.end());
    return registry.GetCounter("vllm:" + name, help, std::move(more));
  }
  Histogram Histogram_(const std::string& name, const std::string& help, const Buckets& buckets) {
    return registry.GetHistogram("vllm:" + name, help, buckets, labels);
  }

  MetricsRegistry& registry;
  const MetricLabels labels;
  Gauge running, waiting, waiting_capacity, waiting_deferred, kv_usage;
  Counter prefix_queries, prefix_hits, prompt_tokens, prompt_cached, generation_tokens, preemptions;
  std::array<Counter, 2> prompt_by_source;
  std::array<Counter, 4> success;
  Histogram ttft, itl, tpot, e2e, queue, inference, prefill, decode;
  Histogram request_prompt, request_generation, request_max_generation, params_max_tokens, params_n;
  Histogram iteration_tokens, request_preemptions;
};

struct ServingMetrics::Impl {
  Impl(MetricsRegistry& r, Options o)
      : registry(r), options(std::move(o)), model({{"model", options.model}}) {
    if (options.vllm_aliases) vllm.emplace(registry, options);
  }

  MetricLabels With(MetricLabels labels) const {
    labels.insert(model.begin(), model.end());
    return labels;
  }
  Counter Count(const std::string& name, const std::string& help, MetricLabels labels) {
    return registry.GetCounter(name, help, With(std::move(labels)));
  }
  Histogram Stage(std::string_view stage) {
    return registry.GetHistogram("tutti_stage_seconds", "Where the time of requests goes",
                                 ShortLatencyBuckets(), With({{"stage", std::string(stage)}}));
  }

  MetricsRegistry& registry;
  const Options options;
  const MetricLabels model;
  std::optional<VllmMetrics> vllm;
  Mutex mutex;  // of the making of lazy series
  MetricsRegistry::CollectorHandle collector;

  // Hot ones, made at once so that they stand at zero before the first request.
  Histogram ttft = registry.GetHistogram("tutti_time_to_first_token_seconds",
                                         "Accepted until the first token", LatencyBuckets(), model);
  Histogram itl =
      registry.GetHistogram("tutti_inter_token_latency_seconds", "Between two tokens of a sequence",
                            LatencyBuckets(), model);
  Histogram tpot = registry.GetHistogram("tutti_time_per_output_token_seconds",
                                         "Mean over a request", LatencyBuckets(), model);
  Histogram queue_wait =
      registry.GetHistogram("tutti_queue_wait_seconds", "Accepted until the first lane",
                            ShortLatencyBuckets(), With({{"lane", "interactive"}}));
  Histogram prefill = registry.GetHistogram(
      "tutti_prefill_seconds", "First lane until the first token", LatencyBuckets(), model);
  Histogram decode = registry.GetHistogram("tutti_decode_seconds", "First token until the last",
                                           LatencyBuckets(), model);
  Histogram prompt_size =
      registry.GetHistogram("tutti_request_prompt_tokens", "Prompt tokens of a request",
                            SizeBuckets(options.max_model_len), model);
  Histogram output_size =
      registry.GetHistogram("tutti_request_output_tokens", "Output tokens of a request",
                            SizeBuckets(options.max_model_len), model);
  Histogram max_tokens =
      registry.GetHistogram("tutti_request_max_tokens", "max_tokens of a request",
                            SizeBuckets(options.max_model_len), model);
  Histogram choices =
      registry.GetHistogram("tutti_request_n", "Choices of a request", ChoiceBuckets(), model);
  Histogram step_tokens =
      registry.GetHistogram("tutti_step_tokens", "Tokens of a step", BatchBuckets(), model);
  Histogram step_sequences =
      registry.GetHistogram("tutti_step_sequences", "Sequences of a step", BatchBuckets(), model);
  Counter busy = registry.GetCounter("tutti_engine_busy_seconds_total",
                                     "Time the engine spent in steps", model);
  Counter output_tokens =
      registry.GetCounter("tutti_output_tokens_total", "Tokens generated", model);
  std::array<Counter, 2> prompt_tokens = {
      registry.GetCounter("tutti_prompt_tokens_total", "Prompt tokens by source",
                          With({{"source", "computed"}})),
      registry.GetCounter("tutti_prompt_tokens_total", "Prompt tokens by source",
                          With({{"source", "prefix"}}))};
  Counter prefix_queried = registry.GetCounter(
      "tutti_prefix_queried_tokens_total", "Prompt tokens looked up in the prefix cache", model);
  Counter prefix_hit = registry.GetCounter("tutti_prefix_hit_tokens_total",
                                           "Prompt tokens found in the prefix cache", model);
  Counter kv_evicted =
      registry.GetCounter("tutti_kv_evicted_blocks_total", "Cached blocks given up", model);
  std::array<Histogram, 3> steps = {Step(StepKind::kPrefill), Step(StepKind::kDecode),
                                    Step(StepKind::kMixed)};
  std::array<Counter, 4> finished = {Finished(FinishKind::kStop), Finished(FinishKind::kLength),
                                     Finished(FinishKind::kAbort), Finished(FinishKind::kError)};
  std::array<std::array<Counter, 3>, 4> cancelled = {
      Cancelled(CancelCause::kDisconnect), Cancelled(CancelCause::kDeadline),
      Cancelled(CancelCause::kApi), Cancelled(CancelCause::kDrain)};
  std::array<Counter, 2> wasted = {Wasted(WasteCause::kPreemption), Wasted(WasteCause::kCancelled)};
  Counter preemptions = Count("tutti_preemptions_total", "Sequences preempted", {{"reason", "kv"}});
  // Of doors and operations, most of which a process never sees.
  std::array<LazySeries<Histogram>, kStages.size()> stages;
  std::array<std::array<std::array<LazySeries<Counter>, kCodes.size()>, kOps>, kDoors> answered;
  std::array<std::array<LazySeries<Histogram>, kOps>, kDoors> answer_time;
  std::array<LazySeries<Gauge>, kOps> in_flight;
  std::array<LazySeries<Gauge>, kDoors> streams;
  std::array<LazySeries<Counter>, kDoors> slow_readers;

  Counter Finished(FinishKind reason) {
    return Count("tutti_requests_finished_total", "Requests finished",
                 {{"finish_reason", Name(reason)}});
  }
  std::array<Counter, 3> Cancelled(CancelCause cause) {
    const auto in = [&](RequestPhase phase) {
      return Count("tutti_requests_cancelled_total", "Requests cancelled",
                   {{"cause", Name(cause)}, {"phase", Name(phase)}});
    };
    return {in(RequestPhase::kQueued), in(RequestPhase::kPrefill), in(RequestPhase::kDecode)};
  }
  Counter Wasted(WasteCause cause) {
    return Count("tutti_wasted_tokens_total", "Tokens computed for nobody",
                 {{"cause", Name(cause)}});
  }
  Histogram Step(StepKind kind) {
    return registry.GetHistogram("tutti_step_seconds", "Time of a step", ShortLatencyBuckets(),
                                 With({{"kind", Name(kind)}}));
  }
};

ServingMetrics::ServingMetrics(MetricsRegistry& registry, Options options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {
  const Options& o = impl_->options;
  registry.GetGauge("tutti_build_info", "1", {{"version", o.version}, {"isa", o.isa}}).Set(1);
  registry
      .GetGauge("tutti_model_info", "1",
                impl_->With({{"arch", o.architecture},
                             {"quant", o.quantisation},
                             {"digest", o.digest},
                             {"ctx", std::to_string(o.max_model_len)}}))
      .Set(1);
  registry
      .GetGauge("tutti_cache_config_info", "1",
                impl_->With({{"block_size", std::to_string(o.block_tokens)},
                             {"blocks", std::to_string(o.kv_blocks)}}))
      .Set(1);
}

ServingMetrics::~ServingMetrics() = default;

void ServingMetrics::SetEngineGauges(std::function<EngineGauges()> read) {
  Impl& i = *impl_;
  const auto gauge = [&](const char* name, const char* help, MetricLabels labels = {}) {
    return i.registry.GetGauge(name, help, i.With(std::move(labels)));
  };
  // Owns what it touches, handles of the registry all of it: a scrape may be under way when the
  // model is unloaded.
  i.collector = i.registry.AddCollector(
      [read = std::move(read), vllm = i.vllm,
       running = gauge("tutti_running_sequences", "Sequences that hold a lane"),
       waiting =
           gauge("tutti_waiting_sequences", "Sequences without a lane", {{"reason", "capacity"}}),
       deferred =
           gauge("tutti_waiting_sequences", "Sequences without a lane", {{"reason", "deferred"}}),
       queue = gauge("tutti_queue_requests", "Requests in the queue", {{"lane", "interactive"}}),
       tokens =
           gauge("tutti_queue_tokens", "Prompt tokens in the queue", {{"lane", "interactive"}}),
       oldest = gauge("tutti_queue_oldest_seconds", "Age of the oldest request in the queue",
                      {{"lane", "interactive"}}),
       free = gauge("tutti_kv_blocks", "KV blocks", {{"state", "free"}}),
       active = gauge("tutti_kv_blocks", "KV blocks", {{"state", "active"}}),
       cached = gauge("tutti_kv_blocks", "KV blocks", {{"state", "cached"}}),
       usage = gauge("tutti_kv_usage_ratio", "KV blocks in use, 0 to 1"),
       heartbeat =
           gauge("tutti_engine_heartbeat_age_seconds", "Since the step loop last made progress"),
       evicted = i.kv_evicted, told = std::make_shared<std::atomic<int64_t>>(0)]() mutable {
        const EngineGauges now = read();
        const auto total =
            static_cast<double>(now.kv_blocks_free + now.kv_blocks_active + now.kv_blocks_cached);
        const double used = total > 0 ? static_cast<double>(now.kv_blocks_active) / total : 0.0;
        running.Set(now.running);
        waiting.Set(now.waiting - now.waiting_deferred);
        deferred.Set(now.waiting_deferred);
        queue.Set(now.waiting);
        tokens.Set(static_cast<double>(now.waiting_tokens));
        oldest.Set(now.oldest_waiting_s);
        free.Set(static_cast<double>(now.kv_blocks_free));
        active.Set(static_cast<double>(now.kv_blocks_active));
        cached.Set(static_cast<double>(now.kv_blocks_cached));
        usage.Set(used);
        heartbeat.Set(now.heartbeat_age_s);
        const int64_t more = now.kv_evicted_blocks - told->exchange(now.kv_evicted_blocks);
        if (more > 0) evicted.Add(static_cast<double>(more));
        if (vllm.has_value()) {
          vllm->running.Set(now.running);
          vllm->waiting.Set(now.waiting);
          vllm->waiting_capacity.Set(now.waiting - now.waiting_deferred);
          vllm->waiting_deferred.Set(now.waiting_deferred);
          vllm->kv_usage.Set(used);
        }
      });
}

void ServingMetrics::RequestAccepted(int64_t prompt_tokens, int64_t max_tokens, int n) {
  impl_->prompt_size.Observe(static_cast<double>(prompt_tokens));
  impl_->max_tokens.Observe(static_cast<double>(max_tokens));
  impl_->choices.Observe(n);
  if (impl_->vllm.has_value()) {
    impl_->vllm->request_prompt.Observe(static_cast<double>(prompt_tokens));
    impl_->vllm->params_max_tokens.Observe(static_cast<double>(max_tokens));
    impl_->vllm->params_n.Observe(n);
  }
}

void ServingMetrics::RequestRejected(std::string_view code) {
  impl_
      ->Count("tutti_requests_rejected_total", "Requests refused, by error code",
              {{"code", std::string(code)}})
      .Add();
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
  const double per_token =
      f.output_tokens > 1 ? ToSeconds(f.decode) / static_cast<double>(f.output_tokens - 1) : 0;
  if (f.output_tokens > 1) i.tpot.Observe(per_token);
  if (!i.vllm.has_value()) return;
  i.vllm->success[static_cast<size_t>(f.reason)].Add();
  i.vllm->request_generation.Observe(static_cast<double>(f.output_tokens));
  i.vllm->request_max_generation.Observe(static_cast<double>(f.output_tokens));
  if (f.output_tokens > 1) i.vllm->tpot.Observe(per_token);
  i.vllm->e2e.Observe(ToSeconds(f.total));
  i.vllm->queue.Observe(ToSeconds(f.queue));
  i.vllm->inference.Observe(ToSeconds(f.prefill + f.decode));
  i.vllm->prefill.Observe(ToSeconds(f.prefill));
  i.vllm->decode.Observe(ToSeconds(f.decode));
  i.vllm->request_preemptions.Observe(f.preemptions);
}

void ServingMetrics::FirstToken(Duration since_accepted) {
  impl_->ttft.Observe(ToSeconds(since_accepted));
  if (impl_->vllm.has_value()) impl_->vllm->ttft.Observe(ToSeconds(since_accepted));
}

void ServingMetrics::InterToken(Duration gap, int64_t tokens) {
  for (int64_t k = 0; k < tokens; ++k) {
    impl_->itl.Observe(ToSeconds(gap));
    if (impl_->vllm.has_value()) impl_->vllm->itl.Observe(ToSeconds(gap));
  }
}

void ServingMetrics::QueueWait(Duration wait) { impl_->queue_wait.Observe(ToSeconds(wait)); }

void ServingMetrics::Step(StepKind kind, Duration took, int64_t tokens, int sequences) {
  impl_->steps[static_cast<size_t>(kind)].Observe(ToSeconds(took));
  impl_->step_tokens.Observe(static_cast<double>(tokens));
  impl_->step_sequences.Observe(sequences);
  impl_->busy.Add(ToSeconds(took));
  if (impl_->vllm.has_value()) impl_->vllm->iteration_tokens.Observe(static_cast<double>(tokens));
}

void ServingMetrics::PromptTokens(PromptSource source, int64_t tokens) {
  impl_->prompt_tokens[static_cast<size_t>(source)].Add(static_cast<double>(tokens));
  if (!impl_->vllm.has_value()) return;
  impl_->vllm->prompt_tokens.Add(static_cast<double>(tokens));
  impl_->vllm->prompt_by_source[static_cast<size_t>(source)].Add(static_cast<double>(tokens));
  if (source == PromptSource::kPrefix) impl_->vllm->prompt_cached.Add(static_cast<double>(tokens));
}

void ServingMetrics::OutputTokens(int64_t tokens) {
  impl_->output_tokens.Add(static_cast<double>(tokens));
  if (impl_->vllm.has_value()) impl_->vllm->generation_tokens.Add(static_cast<double>(tokens));
}

void ServingMetrics::PrefixLookup(int64_t queried_tokens, int64_t hit_tokens) {
  impl_->prefix_queried.Add(static_cast<double>(queried_tokens));
  impl_->prefix_hit.Add(static_cast<double>(hit_tokens));
  if (!impl_->vllm.has_value()) return;
  impl_->vllm->prefix_queries.Add(static_cast<double>(queried_tokens));
  impl_->vllm->prefix_hits.Add(static_cast<double>(hit_tokens));
}

void ServingMetrics::Preemption() {
  impl_->preemptions.Add();
  if (impl_->vllm.has_value()) impl_->vllm->preemptions.Add();
}

void ServingMetrics::WastedTokens(WasteCause cause, int64_t tokens) {
  impl_->wasted[static_cast<size_t>(cause)].Add(static_cast<double>(tokens));
}

void ServingMetrics::Stage(std::string_view stage, Duration took) {
  Impl& i = *impl_;
  const size_t at = IndexOf(kStages, stage);
  const auto make = [&] { return i.Stage(stage); };
  (at < kStages.size() ? i.stages[at].Get(i.mutex, make) : make()).Observe(ToSeconds(took));
}

void ServingMetrics::DoorRequest(DoorKind door, OpKind op, int code, Duration took) {
  Impl& i = *impl_;
  const auto d = static_cast<size_t>(door), o = static_cast<size_t>(op);
  const size_t at = IndexOf(kCodes, code);
  const auto count = [&] {
    return i.Count("tutti_requests_total", "Requests answered",
                   {{"door", Name(door)}, {"op", Name(op)}, {"code", std::to_string(code)}});
  };
  (at < kCodes.size() ? i.answered[d][o][at].Get(i.mutex, count) : count()).Add();
  const auto time = [&] {
    return i.registry.GetHistogram("tutti_request_seconds", "Whole time of a request",
                                   LatencyBuckets(),
                                   i.With({{"door", Name(door)}, {"op", Name(op)}}));
  };
  i.answer_time[d][o].Get(i.mutex, time).Observe(ToSeconds(took));
}

void ServingMetrics::InFlight(OpKind op, int delta) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetGauge("tutti_requests_in_flight", "Requests being answered",
                               i.With({{"op", Name(op)}}));
  };
  i.in_flight[static_cast<size_t>(op)].Get(i.mutex, make).Add(delta);
}

void ServingMetrics::StreamsOpen(DoorKind door, int delta) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.registry.GetGauge("tutti_streams_open", "Streams being written",
                               i.With({{"door", Name(door)}}));
  };
  i.streams[static_cast<size_t>(door)].Get(i.mutex, make).Add(delta);
}

void ServingMetrics::SlowReaderCancelled(DoorKind door) {
  Impl& i = *impl_;
  const auto make = [&] {
    return i.Count("tutti_slow_reader_cancels_total",
                   "Requests cancelled because their reader stopped reading",
                   {{"door", Name(door)}});
  };
  i.slow_readers[static_cast<size_t>(door)].Get(i.mutex, make).Add();
}

}  // namespace tutti
