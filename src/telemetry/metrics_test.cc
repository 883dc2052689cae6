#include "telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "telemetry/serving_metrics.h"

namespace tutti::telemetry {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, TheSameNameAndLabelsAreTheSameSeries) {
  MetricsRegistry registry;
  registry.GetCounter("c_total", "help", {{"a", "1"}}).Add();
  registry.GetCounter("c_total", "help", {{"a", "1"}}).Add(2);
  registry.GetCounter("c_total", "help", {{"a", "2"}}).Add();
  EXPECT_EQ(registry.GetCounter("c_total", "help", {{"a", "1"}}).Value(), 3);
  EXPECT_THAT(registry.Expose(), HasSubstr("# TYPE c_total counter\nc_total{"));
  EXPECT_THAT(registry.Expose(), HasSubstr("c_total{a=\"1\"} 3\n"));
  EXPECT_THAT(registry.Expose(), HasSubstr("c_total{a=\"2\"} 1\n"));
}

TEST(Metrics, HistogramsCountIntoTheirBuckets) {
  MetricsRegistry registry;
  Histogram histogram = registry.GetHistogram("h_seconds", "help", {0.1, 1});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) histogram.Observe(value);
  EXPECT_EQ(histogram.Count(), 4u);
  EXPECT_NEAR(histogram.Sum(), 7.65, 1e-9);
  EXPECT_THAT(registry.Expose(),
              HasSubstr("h_seconds_bucket{le=\"0.1\"} 2\nh_seconds_bucket{le=\"1\"} "
                        "3\nh_seconds_bucket{le=\"+Inf\"} 4\n"));
}

TEST(Metrics, SamplesEqualTheExposition) {
  MetricsRegistry registry;
  registry.GetCounter("c_total", "help", {{"a", "1"}}).Add(3);
  registry.GetGauge("other", "help").Set(1);
  Gauge collected = registry.GetGauge("g", "help");
  const auto handle = registry.AddCollector([&] { collected.Set(7); });
  Histogram histogram = registry.GetHistogram("h_seconds", "help", {0.1, 1});
  for (const double value : {0.05, 0.5, 7.0}) histogram.Observe(value);
  constexpr std::string_view kNames[] = {"absent", "c_total", "g", "h_seconds"};
  const std::vector<MetricSamples> samples = registry.Sample(kNames);
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name, "c_total");
  EXPECT_EQ(samples[0].series[0].labels, (MetricLabels{{"a", "1"}}));
  EXPECT_EQ(samples[0].series[0].value, 3);
  EXPECT_EQ(samples[1].series[0].value, 7) << "collectors run";
  EXPECT_TRUE(samples[2].histogram);
  EXPECT_EQ(samples[2].series[0].count, 3u);
  EXPECT_NEAR(samples[2].series[0].value, 7.55, 1e-9);
  EXPECT_EQ(samples[2].series[0].at_most, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(samples[2].series[0].bounds.size(), 3u);
}

TEST(Metrics, HostileLabelValuesAreEscapedBoundedAndLimitedInNumber) {
  MetricsRegistry registry;
  registry
      .GetCounter("c_total", "help",
                  {{"model", "a\"} 1\nforged_total 7\\\r\x1b\xff" + std::string(1000, 'x')}})
      .Add();
  for (int i = 0; i < 1000; ++i)
    registry.GetCounter("d_total", "help", {{"model", "m" + std::to_string(i)}}).Add();
  const std::string text = registry.Expose();
  std::istringstream lines(text);
  int d_series = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.starts_with("forged_total"));
    EXPECT_LT(line.size(), 250u);
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << line;
    d_series += line.starts_with("d_total{");
  }
  EXPECT_EQ(d_series, 101);
  EXPECT_THAT(text, HasSubstr("d_total{model=\"other\"} 900"));
}

TEST(Metrics, LabelsKeepTheLettersOfEveryAlphabet) {
  MetricsRegistry registry;
  registry.GetCounter("c_total", "help", {{"model", "ORG/smol-\xC3\xA9 2:Q4"}}).Add();
  // A control character, the end of a line for some readers, and half a character.
  registry
      .GetCounter("d_total", "help",
                  {{"model",
                    "a\xC2\x85"
                    "b\xE2\x80\xA8"
                    "c\xC3"}})
      .Add();
  registry.GetCounter("e_total", "help", {{"model", std::string(127, 'x') + "\xC3\xA9"}}).Add();
  const std::string text = registry.Expose();
  EXPECT_THAT(text, HasSubstr("c_total{model=\"ORG/smol-\xC3\xA9 2:Q4\"} 1"));
  EXPECT_THAT(text, HasSubstr("d_total{model=\"a?b?c?\"} 1"));
  EXPECT_THAT(text, HasSubstr("e_total{model=\"" + std::string(127, 'x') + "\"} 1"));
}

TEST(Metrics, CollectorsRunBeforeEachExposition) {
  MetricsRegistry registry;
  Gauge gauge = registry.GetGauge("g", "help");
  int calls = 0;
  auto collector = registry.AddCollector([&, gauge]() mutable { gauge.Set(++calls); });
  EXPECT_THAT(registry.Expose(), HasSubstr("g 1\n"));
  EXPECT_THAT(registry.Expose(), HasSubstr("g 2\n"));
  collector.reset();
  registry.Expose();
  EXPECT_EQ(calls, 2);
}

TEST(Metrics, OnlyTheLatestLabelsOfASoleGaugeAreShown) {
  MetricsRegistry registry;
  registry.SetOnlyGauge("info", "help", {{"names", "a"}}, 1);
  registry.SetOnlyGauge("info", "help", {{"names", "a,b"}}, 2);
  std::string text = registry.Expose();
  EXPECT_THAT(text, HasSubstr("info{names=\"a,b\"} 2\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("names=\"a\"")));
  registry.SetOnlyGauge("info", "help", {{"names", "a,b"}}, 3);
  registry.SetOnlyGauge("other", "help", {{"names", std::string(8000, 'x')}}, 4);
  text = registry.Expose();
  EXPECT_THAT(text, HasSubstr("info{names=\"a,b\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("\"" + std::string(MetricsRegistry::kMaxInfoBytes, 'x') + "\"} 4\n"));
}

TEST(Metrics, SizeBucketsReachTheLimit) {
  EXPECT_EQ(SizeBuckets(100), (Buckets{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(SizeBuckets(101).back(), 200);
  EXPECT_EQ(SizeBuckets(1), Buckets{1});
}

TEST(ServingMetrics, HistogramCountsEqualTheRequestsAndAliasesOnlyShowOnRequest) {
  for (const bool aliases : {false, true}) {
    MetricsRegistry registry;
    ServingMetrics::Options options;
    options.model = "m";
    options.vllm_aliases = aliases;
    options.kv_blocks = 1024;
    ServingMetrics metrics(registry, options);
    metrics.SetEngineGauges([] {
      ServingMetrics::EngineGauges gauges;
      gauges.running = 2;
      gauges.waiting = 5;
      gauges.waiting_deferred = 1;
      gauges.kv_blocks_free = 60;
      gauges.kv_blocks_active = 30;
      gauges.kv_blocks_cached = 10;
      return gauges;
    });
    for (int i = 0; i < 7; ++i) {
      metrics.RequestAccepted(10, 20, 1);
      metrics.QueueWait(std::chrono::microseconds(200));
      metrics.FirstToken(std::chrono::milliseconds(15));
      metrics.InterToken(std::chrono::milliseconds(5), 3);
      ServingMetrics::Finished finished;
      finished.output_tokens = 4;
      finished.decode = std::chrono::milliseconds(15);
      finished.total = std::chrono::milliseconds(30);
      metrics.RequestFinished(finished);
      metrics.PromptTokens(PromptSource::kComputed, 6);
      metrics.PromptTokens(PromptSource::kPrefix, 4);
      metrics.PrefixLookup(10, 4);
      metrics.OutputTokens(4);
      metrics.Step(StepKind::kMixed, std::chrono::milliseconds(5), 12, 2);
      metrics.Speculation(7, std::array{2, 1, 0});
      metrics.Preemption(PreemptionCause::kPriority);
    }
    metrics.RequestRejected("queue_full");
    metrics.RequestCancelled(CancelCause::kDisconnect, RequestPhase::kDecode);
    const std::string text = registry.Expose();
    for (const char* line :
         {"tutti_time_to_first_token_seconds_count{model=\"m\"} 7",
          "tutti_inter_token_latency_seconds_count{model=\"m\"} 21",
          "tutti_time_per_output_token_seconds_count{model=\"m\"} 7",
          "tutti_queue_wait_seconds_count{lane=\"interactive\",model=\"m\",priority="
          "\"interactive\"} 7",
          "tutti_queue_wait_seconds_bucket{lane=\"interactive\",model=\"m\",priority="
          "\"interactive\",le=\"0.00025\"} 7",
          "tutti_request_output_tokens_count{model=\"m\"} 7",
          "tutti_output_tokens_total{model=\"m\"} 28",
          "tutti_prompt_tokens_total{model=\"m\",source=\"prefix\"} 28",
          "tutti_running_sequences{model=\"m\"} 2",
          "tutti_waiting_sequences{model=\"m\",reason=\"capacity\"} 4",
          "tutti_kv_usage_ratio{model=\"m\"} 0.3",
          "tutti_requests_rejected_total{code=\"queue_full\",model=\"m\"} 1",
          "tutti_requests_cancelled_total{cause=\"disconnect\",model=\"m\",phase=\"decode\"} 1",
          "tutti_spec_drafts_total{model=\"m\"} 7",
          "tutti_spec_draft_tokens_total{model=\"m\"} 49",
          "tutti_spec_accepted_tokens_total{model=\"m\",position=\"0\"} 14",
          "tutti_spec_accepted_tokens_total{model=\"m\",position=\"1\"} 7",
          "tutti_spec_accepted_tokens_total{model=\"m\",position=\"6\"} 0",
          "tutti_preemptions_total{model=\"m\",reason=\"kv\"} 0",
          "tutti_preemptions_total{model=\"m\",reason=\"lane\"} 7",
          "tutti_step_seconds_count{kind=\"mixed\",model=\"m\"} 7"}) {
      EXPECT_THAT(text, HasSubstr(line));
    }
    for (const char* line :
         {"vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 7",
          "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 5",
          "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.3",
          "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.3\"} 7",
          "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 7",
          "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 28",
          "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 28",
          "vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"m\"} 7",
          "vllm:spec_decode_num_draft_tokens_total{engine=\"0\",model_name=\"m\"} 49",
          "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\",model_name=\"m\"} 21",
          "vllm:num_preemptions_total{engine=\"0\",model_name=\"m\"} 7",
          "vllm:cache_config_info{block_size=\"32\",engine=\"0\",model_name=\"m\",num_gpu_blocks="
          "\"1024\"} 1"}) {
      if (aliases) {
        EXPECT_THAT(text, HasSubstr(line));
      }
    }
    EXPECT_EQ(text.find("vllm:") != std::string::npos, aliases);
  }
}

}  // namespace
}  // namespace tutti::telemetry
