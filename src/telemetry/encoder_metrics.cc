#include "telemetry/encoder_metrics.h"

#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace tutti::telemetry {

struct EncoderMetrics::Impl {
  Impl(MetricsRegistry& r, const Options& o)
      : make{r, {{"model", o.model}}}, with_decoder(o.with_decoder) {}

  Counter Dispatched(DispatchCause cause) {
    return make.Counter("tutti_encode_dispatch_total", "Encoder batches started, by reason",
                        {{"reason", LabelOf(cause)}});
  }
  Counter Finished(FinishKind reason) {
    return make.Counter("tutti_requests_finished_total", "Requests finished, by reason",
                        {{"finish_reason", LabelOf(reason)}});
  }

  const SeriesMaker make;
  const bool with_decoder;
  MetricsRegistry::CollectorHandle collector;
  std::function<void(const Gauges&)> set_gauges;  // empty without an engine
  std::optional<Gauge> info;                      // 1 while the model is loaded

  Histogram request_items =
      make.Histogram("tutti_encode_request_items", "Texts per request", BatchBuckets());
  Histogram request_tokens =
      make.Histogram("tutti_encode_request_tokens", "Tokens per request", BatchBuckets());
  Histogram batch_items =
      make.Histogram("tutti_encode_batch_items", "Texts per encoder batch", BatchBuckets());
  Histogram batch_tokens =
      make.Histogram("tutti_encode_batch_tokens", "Tokens per encoder batch", BatchBuckets());
  Histogram batch_time = make.Histogram(
      "tutti_encode_batch_seconds", "Time per encoder batch, in seconds", ShortLatencyBuckets());
  Histogram tokenize = make.Histogram(
      "tutti_tokenize_seconds", "Time to tokenise a request, in seconds", ShortLatencyBuckets());
  Histogram queue_wait = make.Histogram(
      "tutti_queue_wait_seconds", "Time between acceptance and the first step, in seconds",
      ShortLatencyBuckets(), {{"lane", "interactive"}, {"priority", "interactive"}});
  Histogram inference =
      make.Histogram("tutti_encode_inference_seconds",
                     "Time between a request's first batch and its last result, in seconds",
                     ShortLatencyBuckets());
  Counter busy =
      make.Counter("tutti_engine_busy_seconds_total", "Time the engine spent in steps, in seconds");
  Counter items = make.Counter("tutti_encode_items_total", "Texts encoded");
  Counter tokens = make.Counter("tutti_prompt_tokens_total",
                                "Prompt tokens, by source (computed or from the prefix cache)",
                                {{"source", "computed"}});
  Counter padding = make.Counter("tutti_encode_padding_tokens_total",
                                 "Tokens that padding would have added; they are not computed");
  Counter wasted = make.Counter("tutti_wasted_tokens_total", "Tokens computed in vain, by cause",
                                {{"cause", LabelOf(WasteCause::kCancelled)}});
  std::array<Counter, 4> dispatched = {
      Dispatched(DispatchCause::kFull), Dispatched(DispatchCause::kIdle),
      Dispatched(DispatchCause::kDeadline), Dispatched(DispatchCause::kAge)};
  std::array<Counter, 4> finished = {Finished(FinishKind::kStop), Finished(FinishKind::kLength),
                                     Finished(FinishKind::kAbort), Finished(FinishKind::kError)};
};

EncoderMetrics::EncoderMetrics(MetricsRegistry& registry, Options options)
    : impl_(std::make_unique<Impl>(registry, options)) {
  if (options.with_decoder) return;
  registry
      .GetGauge("tutti_build_info", "Always 1; the labels describe the build",
                {{"version", options.version}, {"isa", options.isa}})
      .Set(1);
  impl_->info =
      impl_->make.Gauge("tutti_model_info", "1 while the model is loaded; the labels describe it",
                        {{"arch", options.architecture},
                         {"quant", options.quantisation},
                         {"digest", options.digest},
                         {"ctx", std::to_string(options.max_tokens)}});
  impl_->info->Set(1);
}

// As ServingMetrics.
EncoderMetrics::~EncoderMetrics() {
  impl_->collector.reset();
  if (impl_->set_gauges) impl_->set_gauges({});
  if (impl_->info.has_value()) impl_->info->Set(0);
}

void EncoderMetrics::SetGauges(std::function<Gauges()> read) {
  Impl& i = *impl_;
  const SeriesMaker& make = i.make;
  const MetricLabels priority = {{"lane", "interactive"}, {"priority", "interactive"}};
  Gauge items = make.Gauge("tutti_encode_waiting_items", "Texts waiting for a batch");
  if (i.with_decoder) {
    i.set_gauges = [items](const Gauges& now) mutable {
      items.Set(static_cast<double>(now.waiting_items));
    };
  } else {
    i.set_gauges =
        [items, requests = make.Gauge("tutti_queue_requests", "Requests in the queue", priority),
         tokens = make.Gauge("tutti_queue_tokens", "Prompt tokens in the queue", priority),
         oldest = make.Gauge("tutti_queue_oldest_seconds",
                             "Age of the oldest request in the queue, in seconds", priority),
         wait = make.Gauge("tutti_predicted_wait_seconds",
                           "Predicted queue wait of a new request, in seconds", priority),
         heartbeat = make.Gauge("tutti_engine_heartbeat_age_seconds",
                                "Time since the step loop last made progress, in seconds")](
            const Gauges& now) mutable {
          requests.Set(now.requests);
          tokens.Set(static_cast<double>(now.waiting_tokens));
          oldest.Set(now.oldest_waiting_s);
          wait.Set(now.predicted_wait_s);
          items.Set(static_cast<double>(now.waiting_items));
          heartbeat.Set(now.heartbeat_age_s);
        };
  }
  i.collector =
      make.registry.AddCollector([read = std::move(read), set = i.set_gauges] { set(read()); });
}

void EncoderMetrics::RequestAccepted(int64_t items, int64_t tokens) {
  impl_->request_items.Observe(static_cast<double>(items));
  impl_->request_tokens.Observe(static_cast<double>(tokens));
}

void EncoderMetrics::RequestRejected(std::string_view code) {
  impl_->make.RejectedRequests(code).Add();
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
