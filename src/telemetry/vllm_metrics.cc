#include "telemetry/vllm_metrics.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tutti::telemetry {
namespace {

// Buckets that the vllm:* histograms have in vLLM, so that boards and alerts fit.
const Buckets kTtftBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                              1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kItlBuckets = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                             .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Buckets kLatencyBuckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

std::string JoinedNames(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  return joined;
}

}  // namespace

VllmMetrics::VllmMetrics(MetricsRegistry& registry, const ServingMetrics::Options& options) {
  const SeriesMaker make{registry, {{"model_name", options.model}, {"engine", "0"}}, "vllm:"};
  const Buckets sizes = SizeBuckets(options.max_model_len);
  running_ = make.Gauge("num_requests_running", "Requests in the running batch");
  waiting_ = make.Gauge("num_requests_waiting", "Requests waiting to be scheduled");
  waiting_capacity_ = make.Gauge("num_requests_waiting_by_reason", "Waiting requests by reason",
                                 {{"reason", "capacity"}});
  waiting_deferred_ = make.Gauge("num_requests_waiting_by_reason", "Waiting requests by reason",
                                 {{"reason", "deferred"}});
  kv_usage_ = make.Gauge("kv_cache_usage_perc", "KV cache in use, 0 to 1");
  make.Gauge("cache_config_info", "Shape of the KV cache",
             {{"block_size", std::to_string(options.block_tokens)},
              {"num_gpu_blocks", std::to_string(options.kv_blocks)}})
      .Set(1);
  make.Gauge("engine_sleep_state", "1 for the state the engine is in", {{"sleep_state", "awake"}})
      .Set(1);
  prefix_queries_ =
      make.Counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache");
  prefix_hits_ = make.Counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
  prompt_tokens_ = make.Counter("prompt_tokens_total", "Prompt tokens processed");
  prompt_cached_ =
      make.Counter("prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache");
  prompt_by_source_[0] = make.Counter("prompt_tokens_by_source_total", "Prompt tokens by source",
                                      {{"source", "local_compute"}});
  prompt_by_source_[1] = make.Counter("prompt_tokens_by_source_total", "Prompt tokens by source",
                                      {{"source", "local_cache_hit"}});
  generation_tokens_ = make.Counter("generation_tokens_total", "Tokens generated");
  drafts_ = make.Counter("spec_decode_num_drafts_total", "Steps that verified proposed tokens");
  draft_tokens_ =
      make.Counter("spec_decode_num_draft_tokens_total", "Tokens proposed and verified");
  accepted_tokens_ =
      make.Counter("spec_decode_num_accepted_tokens_total", "Proposed tokens that came true");
  preemptions_ = make.Counter("num_preemptions_total", "Sequences preempted");
  for (size_t i = 0; i < success_.size(); ++i) {
    success_[i] = make.Counter("request_success_total", "Finished requests",
                               {{"finished_reason", LabelOf(static_cast<FinishKind>(i))}});
  }
  ttft_ = make.Histogram("time_to_first_token_seconds", "Time to first token", kTtftBuckets);
  itl_ = make.Histogram("inter_token_latency_seconds", "Time between tokens", kItlBuckets);
  tpot_ = make.Histogram("request_time_per_output_token_seconds",
                         "Mean time per output token of a request", kItlBuckets);
  e2e_ = make.Histogram("e2e_request_latency_seconds", "Whole time of a request", kLatencyBuckets);
  queue_ = make.Histogram("request_queue_time_seconds", "Time in the queue", kLatencyBuckets);
  inference_ = make.Histogram("request_inference_time_seconds", "Time from first run to last token",
                              kLatencyBuckets);
  prefill_ = make.Histogram("request_prefill_time_seconds", "Time of the prefill", kLatencyBuckets);
  decode_ = make.Histogram("request_decode_time_seconds", "Time of the decode", kLatencyBuckets);
  request_prompt_ = make.Histogram("request_prompt_tokens", "Prompt tokens of a request", sizes);
  request_generation_ =
      make.Histogram("request_generation_tokens", "Output tokens of a request", sizes);
  request_max_generation_ =
      make.Histogram("request_max_num_generation_tokens", "Longest choice of a request", sizes);
  params_max_tokens_ =
      make.Histogram("request_params_max_tokens", "max_tokens of a request", sizes);
  params_n_ = make.Histogram("request_params_n", "n of a request", ChoiceBuckets());
  iteration_tokens_ = make.Histogram("iteration_tokens_total", "Tokens of a step", BatchBuckets());
  request_preemptions_ =
      make.Histogram("request_num_preemptions", "Preemptions of a request", ChoiceBuckets());
}

void VllmMetrics::Gauges(const ServingMetrics::EngineGauges& now, double kv_usage) {
  running_.Set(now.running);
  waiting_.Set(now.waiting);
  waiting_capacity_.Set(now.waiting - now.waiting_deferred);
  waiting_deferred_.Set(now.waiting_deferred);
  kv_usage_.Set(kv_usage);
}

void VllmMetrics::RequestAccepted(int64_t prompt_tokens, int64_t max_tokens, int n) {
  request_prompt_.Observe(static_cast<double>(prompt_tokens));
  params_max_tokens_.Observe(static_cast<double>(max_tokens));
  params_n_.Observe(n);
}

void VllmMetrics::RequestFinished(const ServingMetrics::Finished& f) {
  success_[static_cast<size_t>(f.reason)].Add();
  request_generation_.Observe(static_cast<double>(f.output_tokens));
  request_max_generation_.Observe(static_cast<double>(f.output_tokens));
  if (f.output_tokens > 1) tpot_.Observe(f.SecondsPerToken());
  e2e_.Observe(ToSeconds(f.total));
  queue_.Observe(ToSeconds(f.queue));
  inference_.Observe(ToSeconds(f.prefill + f.decode));
  prefill_.Observe(ToSeconds(f.prefill));
  decode_.Observe(ToSeconds(f.decode));
  request_preemptions_.Observe(f.preemptions);
}

void VllmMetrics::FirstToken(Duration since_accepted) { ttft_.Observe(ToSeconds(since_accepted)); }

void VllmMetrics::InterToken(Duration gap) { itl_.Observe(ToSeconds(gap)); }

void VllmMetrics::Step(int64_t tokens) { iteration_tokens_.Observe(static_cast<double>(tokens)); }

void VllmMetrics::PromptTokens(PromptSource source, int64_t tokens) {
  prompt_tokens_.Add(static_cast<double>(tokens));
  prompt_by_source_[static_cast<size_t>(source)].Add(static_cast<double>(tokens));
  if (source == PromptSource::kPrefix) prompt_cached_.Add(static_cast<double>(tokens));
}

void VllmMetrics::OutputTokens(int64_t tokens) {
  generation_tokens_.Add(static_cast<double>(tokens));
}

void VllmMetrics::PrefixLookup(int64_t queried_tokens, int64_t hit_tokens) {
  prefix_queries_.Add(static_cast<double>(queried_tokens));
  prefix_hits_.Add(static_cast<double>(hit_tokens));
}

void VllmMetrics::Speculation(int64_t proposed, std::span<const int> accepted) {
  drafts_.Add();
  draft_tokens_.Add(static_cast<double>(proposed));
  accepted_tokens_.Add(std::accumulate(accepted.begin(), accepted.end(), 0));
}

void VllmMetrics::Preemption() { preemptions_.Add(); }

MetricsRegistry::CollectorHandle CollectVllmAdapters(MetricsRegistry& registry, int64_t max_loras,
                                                     std::function<AdapterNames()> names) {
  return registry.AddCollector([&registry, max_loras, names = std::move(names)] {
    const AdapterNames now = names();
    registry.SetOnlyGauge(
        "vllm:lora_requests_info",
        "Adapters of running and of waiting requests; the value is the time of the scrape",
        {{"max_lora", std::to_string(max_loras)},
         {"running_lora_adapters", JoinedNames(now.running)},
         {"waiting_lora_adapters", JoinedNames(now.waiting)}},
        static_cast<double>(UnixSeconds()));
  });
}

}  // namespace tutti::telemetry
