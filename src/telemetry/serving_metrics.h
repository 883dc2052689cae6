// ServingMetrics: metrics of a served decoder under `tutti_*` names. With vllm_aliases the same
// values are also exposed under the `vllm:*` names and buckets that existing dashboards and
// autoscalers use. Metrics of servers are in server_metrics.h, those of encoders in
// encoder_metrics.h.
//
// One per served model, made when the model is loaded; updated by the gateway and the engine's
// observer; any thread. A call costs a few atomic adds (histograms: an uncontended lock each) and
// allocates nothing. RequestRejected() and BrokenToolCall() look their series up by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "telemetry/labels.h"
#include "telemetry/metrics.h"

namespace tutti::telemetry {

class ServingMetrics {
 public:
  struct Options {
    std::string model;  // served name: the `model` label
    bool vllm_aliases = false;
    int64_t max_model_len = 8192;  // last size bucket
    // Labels of the info metrics.
    std::string version, isa, architecture, quantisation, digest;
    int block_tokens = 32;
    int64_t kv_blocks = 0;
  };
  // Values that a scrape reads from the engine.
  struct EngineGauges {
    int running = 0, waiting = 0, waiting_deferred = 0;
    int64_t waiting_tokens = 0;
    double oldest_waiting_s = 0;
    int64_t kv_blocks_free = 0, kv_blocks_active = 0, kv_blocks_cached = 0;
    int64_t kv_evicted_blocks = 0;  // in all
    int64_t kv_blocks_pinned = 0;   // of the active ones
    // Memory that a model may have in addition: blocks of layers with a sliding window, and slots
    // of recurrent states. All 0 where it has none.
    struct Slots {
      int64_t free = 0, active = 0, cached = 0;
      int64_t evicted = 0;  // in all
    };
    Slots window_blocks = {}, state_slots = {};
    // Prefixes that are kept in files; in all.
    struct KeptPrefixes {
      int64_t loads = 0, partial_loads = 0, loaded_tokens = 0, saved_blocks = 0, dropped_blocks = 0;
    };
    KeptPrefixes prefixes = {};
    double heartbeat_age_s = 0;
  };

  ServingMetrics(MetricsRegistry& registry, Options options);
  ~ServingMetrics();

  // `read` is called at every scrape until this object is destroyed; a scrape in progress may call
  // it once afterwards.
  void SetEngineGauges(std::function<EngineGauges()> read);

  // --- gateway, once per request ---
  void RequestAccepted(int64_t prompt_tokens, int64_t max_tokens, int n);
  void RequestRejected(std::string_view code);

  // --- engine observer ---
  void RequestCancelled(CancelCause cause, RequestPhase phase);
  struct Finished {
    FinishKind reason = FinishKind::kStop;
    int64_t output_tokens = 0;
    Duration queue{0}, prefill{0}, decode{0},
        total{0};  // accepted -> runs -> first token -> last token
    int preemptions = 0;
    // Mean time per token after the first; needs more than one token.
    double SecondsPerToken() const {
      return ToSeconds(decode) / static_cast<double>(output_tokens - 1);
    }
  };
  void RequestFinished(const Finished& finished);
  void FirstToken(Duration since_accepted);
  void InterToken(Duration gap, int64_t tokens = 1);
  void QueueWait(Duration wait);
  void Step(StepKind kind, Duration took, int64_t tokens, int sequences);
  void PromptTokens(PromptSource source, int64_t tokens);
  void OutputTokens(int64_t tokens);
  void PrefixLookup(int64_t queried_tokens, int64_t hit_tokens);
  // A step verified `proposed` draft tokens over all of its sequences. accepted[i] is the number of
  // sequences that accepted the draft token at position i; at most kDraftPlaces positions.
  static constexpr int kDraftPlaces = 7;
  void Speculation(int64_t proposed, std::span<const int> accepted);
  void Preemption(PreemptionCause cause);
  void WastedTokens(WasteCause cause, int64_t tokens);
  void LogitsNotFinite();  // a request ended because of it

  // --- parser of answers ---
  // A malformed tool call of the model: `reason` is "unknown_tool", "syntax" or "cut".
  void BrokenToolCall(std::string_view reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::telemetry
