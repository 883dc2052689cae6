#include "telemetry/encoder_metrics.h"

#include <array>
#include <utility>

namespace tutti::telemetry {

struct EncoderMetrics::Impl {
  Impl(MetricsRegistry& r, const Options& o)
      : registry(r), model({{"model", o.model}}), beside_decoder(o.beside_decoder) {}

  MetricLabels With(MetricLabels labels) const {
    labels.insert(model.begin(), model.end());
    return labels;
  }
  Counter Dispatched(DispatchCause cause) {
    return registry.GetCounter("tutti_encode_dispatch_total", "Encoder batches started, by reason",
                               With({{"reason", LabelOf(cause)}}));
  }
  Counter Finished(FinishKind reason) {
    return registry.GetCounter("tutti_requests_finished_total", "Requests finished, by reason",
                               With({{"finish_reason", LabelOf(reason)}}));
  }

  MetricsRegistry& registry;
  const MetricLabels model;
  const bool beside_decoder;
  MetricsRegistry::CollectorHandle collector;

  Histogram request_items = registry.GetHistogram("tutti_encode_request_items", "Texts per request",
                                                  BatchBuckets(), model);
  Histogram request_tokens = registry.GetHistogram("tutti_encode_request_tokens",
                                                   "Tokens per request", BatchBuckets(), model);
  Histogram batch_items = registry.GetHistogram("tutti_encode_batch_items",
                                                "Texts per encoder batch", BatchBuckets(), model);
  Histogram batch_tokens = registry.GetHistogram("tutti_encode_batch_tokens",
                                                 "Tokens per encoder batch", BatchBuckets(), model);
  Histogram batch_time =
      registry.GetHistogram("tutti_encode_batch_seconds", "Time per encoder batch, in seconds",
                            ShortLatencyBuckets(), model);
  Histogram tokenize =
      registry.GetHistogram("tutti_tokenize_seconds", "Time to tokenise a request, in seconds",
                            ShortLatencyBuckets(), model);
  Histogram queue_wait = registry.GetHistogram(
      "tutti_queue_wait_seconds", "Time between acceptance and the first step, in seconds",
      ShortLatencyBuckets(), With({{"lane", "interactive"}, {"priority", "interactive"}}));
  Histogram inference =
      registry.GetHistogram("tutti_encode_inference_seconds",
                            "Time between a request's first batch and its last result, in seconds",
                            ShortLatencyBuckets(), model);
  Counter busy = registry.GetCounter("tutti_engine_busy_seconds_total",
                                     "Time the engine spent in steps, in seconds", model);
  Counter items = registry.GetCounter("tutti_encode_items_total", "Texts encoded", model);
  Counter tokens = registry.GetCounter(
      "tutti_prompt_tokens_total", "Prompt tokens, by source (computed or from the prefix cache)",
      With({{"source", "computed"}}));
  Counter padding =
      registry.GetCounter("tutti_encode_padding_tokens_total",
                          "Tokens that padding would have added; they are not computed", model);
  Counter wasted =
      registry.GetCounter("tutti_wasted_tokens_total", "Tokens computed in vain, by cause",
                          With({{"cause", LabelOf(WasteCause::kCancelled)}}));
  std::array<Counter, 4> dispatched = {
      Dispatched(DispatchCause::kFull), Dispatched(DispatchCause::kIdle),
      Dispatched(DispatchCause::kDeadline), Dispatched(DispatchCause::kAge)};
  std::array<Counter, 4> finished = {Finished(FinishKind::kStop), Finished(FinishKind::kLength),
                                     Finished(FinishKind::kAbort), Finished(FinishKind::kError)};
};

EncoderMetrics::EncoderMetrics(MetricsRegistry& registry, Options options)
    : impl_(std::make_unique<Impl>(registry, options)) {
  if (options.beside_decoder) return;
  registry
      .GetGauge("tutti_build_info", "Always 1; the labels describe the build",
                {{"version", options.version}, {"isa", options.isa}})
      .Set(1);
  registry
      .GetGauge("tutti_model_info", "Always 1; the labels describe the model",
                impl_->With({{"arch", options.architecture},
                             {"quant", options.quantisation},
                             {"digest", options.digest},
                             {"ctx", std::to_string(options.max_tokens)}}))
      .Set(1);
}

EncoderMetrics::~EncoderMetrics() = default;

void EncoderMetrics::SetGauges(std::function<Gauges()> read) {
  Impl& i = *impl_;
  const auto gauge = [&](const char* name, const char* help, MetricLabels labels = {}) {
    return i.registry.GetGauge(name, help, i.With(std::move(labels)));
  };
  const MetricLabels priority = {{"lane", "interactive"}, {"priority", "interactive"}};
  Gauge items = gauge("tutti_encode_waiting_items", "Texts waiting for a batch");
  if (i.beside_decoder) {
    i.collector = i.registry.AddCollector([read = std::move(read), items]() mutable {
      items.Set(static_cast<double>(read().waiting_items));
    });
    return;
  }
  i.collector = i.registry.AddCollector(
      [read = std::move(read), items,
       requests = gauge("tutti_queue_requests", "Requests in the queue", priority),
       tokens = gauge("tutti_queue_tokens", "Prompt tokens in the queue", priority),
       oldest = gauge("tutti_queue_oldest_seconds",
                      "Age of the oldest request in the queue, in seconds", priority),
       wait = gauge("tutti_predicted_wait_seconds",
                    "Predicted queue wait of a new request, in seconds", priority),
       heartbeat = gauge("tutti_engine_heartbeat_age_seconds",
                         "Time since the step loop last made progress, in seconds")]() mutable {
        const Gauges now = read();
        requests.Set(now.requests);
        tokens.Set(static_cast<double>(now.waiting_tokens));
        oldest.Set(now.oldest_waiting_s);
        wait.Set(now.predicted_wait_s);
        items.Set(static_cast<double>(now.waiting_items));
        heartbeat.Set(now.heartbeat_age_s);
      });
}

void EncoderMetrics::RequestAccepted(int64_t items, int64_t tokens) {
  impl_->request_items.Observe(static_cast<double>(items));
  impl_->request_tokens.Observe(static_cast<double>(tokens));
}

void EncoderMetrics::RequestRejected(std::string_view code) {
  impl_->registry
      .GetCounter("tutti_requests_rejected_total", "Requests refused, by error code",
                  impl_->With({{"code", std::string(code)}}))
      .Add();
}

void EncoderMetrics::BatchRan(const Batch& batch) {
  Impl& i = *impl_;
  i.dispatched[static_cast<size_t>(batch.cause)].Add();
  i.batch_items.Observe(batch.items);
  i.batch_tokens.Observe(batch.tokens);
  i.batch_time.Observe(ToSeconds(batch.took));
  i.busy.Add(ToSeconds(batch.forward));
  i.items.Add(batch.items);
  i.tokens.Add(batch.tokens);
  i.padding.Add(static_cast<double>(batch.padding));
}

void EncoderMetrics::RequestFinished(const Finished& f) {
  Impl& i = *impl_;
  i.finished[static_cast<size_t>(f.reason)].Add();
  i.tokenize.Observe(ToSeconds(f.prepare));
  i.queue_wait.Observe(ToSeconds(f.queue));
  i.inference.Observe(ToSeconds(f.inference));
  if (f.wasted_tokens > 0) i.wasted.Add(static_cast<double>(f.wasted_tokens));
}

}  // namespace tutti::telemetry
