// EncoderMetrics: metrics of one encoder model: requests, batches and queue. Those of decoders are
// in serving_metrics.h.
//
// Made when the model is loaded; updated by the gateway and the engine's observer; any thread. A
// call costs a few atomic adds and, except for RequestRejected(), allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "telemetry/labels.h"
#include "telemetry/metrics.h"

namespace tutti::telemetry {

class EncoderMetrics {
 public:
  struct Options {
    std::string model;         // served name: the `model` label
    int64_t max_tokens = 512;  // of a text
    // True for a decoder that also embeds: the ServingMetrics of the same model already have the
    // info metrics and the gauges of queue and heartbeat.
    bool with_decoder = false;
    // Labels of the info metrics.
    std::string version = {}, isa = {}, architecture = {}, quantisation = {}, digest = {};
  };
  struct Batch {
    DispatchCause cause = DispatchCause::kIdle;
    int items = 0, tokens = 0;
    int64_t padding = 0;  // tokens that padding to the longest item would add
    Duration took{0};     // from the choice of the batch to the delivery of its results
    Duration forward{0};  // part of `took` on the device
  };
  struct Finished {
    FinishKind reason = FinishKind::kStop;
    Duration prepare{0}, queue{0}, inference{0};
    int64_t wasted_tokens = 0;
  };
  // Values that a scrape reads from the engine.
  struct Gauges {
    int requests = 0;
    int64_t waiting_items = 0, waiting_tokens = 0;
    double oldest_waiting_s = 0, predicted_wait_s = 0, heartbeat_age_s = 0;
  };

  EncoderMetrics(MetricsRegistry& registry, Options options);
  ~EncoderMetrics();

  // As ServingMetrics::SetEngineGauges.
  void SetGauges(std::function<Gauges()> read);

  // --- gateway, once per request ---
  void RequestAccepted(int64_t items, int64_t tokens);
  void RequestRejected(std::string_view code);

  // --- engine observer ---
  void BatchRan(const Batch& batch);
  void RequestFinished(const Finished& finished);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::telemetry
