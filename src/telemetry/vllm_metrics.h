// VllmMetrics: the values of ServingMetrics under vLLM's `vllm:*` names, labels and buckets, so
// that dashboards, alerts and autoscalers made for vLLM work unchanged.
//
// Owned by a ServingMetrics with the option vllm_aliases. Holds handles into the registry, which
// must outlive it; any thread. Each function corresponds to the function of the same name of
// ServingMetrics.
// Source: vLLM's page of production metrics.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "telemetry/labels.h"
#include "telemetry/metrics.h"
#include "telemetry/serving_metrics.h"

namespace tutti::telemetry {

class VllmMetrics {
 public:
  VllmMetrics(MetricsRegistry& registry, const ServingMetrics::Options& options);

  // Sets the gauges from the values of a scrape; `kv_usage` is in [0, 1].
  void Gauges(const ServingMetrics::EngineGauges& now, double kv_usage);

  void RequestAccepted(int64_t prompt_tokens, int64_t max_tokens, int n);
  void RequestFinished(const ServingMetrics::Finished& finished);
  void FirstToken(Duration since_accepted);
  void InterToken(Duration gap);
  void Step(int64_t tokens);
  void PromptTokens(PromptSource source, int64_t tokens);
  void OutputTokens(int64_t tokens);
  void PrefixLookup(int64_t queried_tokens, int64_t hit_tokens);
  void Speculation(int64_t proposed, std::span<const int> accepted);
  void Preemption();

 private:
  Gauge running_, waiting_, waiting_capacity_, waiting_deferred_, kv_usage_;
  Counter prefix_queries_, prefix_hits_, prompt_tokens_, prompt_cached_, generation_tokens_;
  Counter preemptions_, drafts_, draft_tokens_, accepted_tokens_;
  std::array<Counter, 2> prompt_by_source_;  // PromptSource
  std::array<Counter, 4> success_;           // FinishKind
  Histogram ttft_, itl_, tpot_, e2e_, queue_, inference_, prefill_, decode_;
  Histogram request_prompt_, request_generation_, request_max_generation_, params_max_tokens_;
  Histogram params_n_, iteration_tokens_, request_preemptions_;
};

// Adapters by the requests that use them.
struct AdapterNames {
  std::vector<std::string> running, waiting;
};
// `vllm:lora_requests_info` of a process: the names are label values, and the time of the scrape is
// the value, so that readers of several servers know which is the latest. `registry` outlives it.
[[nodiscard]] MetricsRegistry::CollectorHandle CollectVllmAdapters(
    MetricsRegistry& registry, int64_t max_loras, std::function<AdapterNames()> names);

}  // namespace tutti::telemetry
