// ServingMetrics across threads and lifetimes; what it counts is in metrics_test.cc.
#include "telemetry/serving_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "telemetry/encoder_metrics.h"
#include "telemetry/server_metrics.h"

// Counts allocations of this thread while armed. Sanitizers bring their own operators.
#ifndef TUTTI_SANITIZED
namespace {
thread_local bool armed = false;
thread_local size_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  if (armed) ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace tutti::telemetry {
namespace {

using ::testing::HasSubstr;

ServingMetrics::Options WithAliases() {
  ServingMetrics::Options options;
  options.model = "m";
  options.vllm_aliases = true;
  return options;
}

TEST(ServingMetrics, AScrapeAfterAModelIsUnloadedReadsNothingOfIt) {
  MetricsRegistry registry;
  int reads = 0;
  auto metrics = std::make_unique<ServingMetrics>(registry, WithAliases());
  metrics->SetEngineGauges([&] {
    ++reads;
    ServingMetrics::EngineGauges gauges;
    gauges.running = 3;
    return gauges;
  });
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_running_sequences{model=\"m\"} 3"));
  metrics.reset();
  registry.Expose();
  EXPECT_EQ(reads, 1);
  // The next model of that name has the gauges for itself.
  ServingMetrics next(registry, WithAliases());
  next.SetEngineGauges([] { return ServingMetrics::EngineGauges{.running = 5}; });
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_running_sequences{model=\"m\"} 5"));
  EXPECT_THAT(registry.Expose(),
              HasSubstr("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 5"));
}

TEST(ServingMetrics, EvictedBlocksAreCountedOnceHoweverOftenTheyAreRead) {
  MetricsRegistry registry;
  ServingMetrics metrics(registry, WithAliases());
  int64_t evicted = 7;
  metrics.SetEngineGauges(
      [&] { return ServingMetrics::EngineGauges{.kv_evicted_blocks = evicted}; });
  registry.Expose();
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_kv_evicted_blocks_total{model=\"m\"} 7"));
  evicted = 9;
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_kv_evicted_blocks_total{model=\"m\"} 9"));
}

TEST(ServingMetrics, WindowsAndStatesHaveTheirOwnSeries) {
  MetricsRegistry registry;
  ServingMetrics metrics(registry, WithAliases());
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_kv_window_blocks{model=\"m\",state=\"free\"} 0"));
  metrics.SetEngineGauges([] {
    return ServingMetrics::EngineGauges{
        .kv_blocks_free = 90,
        .kv_blocks_active = 10,
        .window_blocks = {.free = 1, .active = 6, .cached = 5, .evicted = 4},
        .state_slots = {.free = 3, .active = 2, .cached = 8, .evicted = 9}};
  });
  registry.Expose();
  const std::string text = registry.Expose();
  for (const char* line : {"tutti_kv_window_blocks{model=\"m\",state=\"free\"} 1",
                           "tutti_kv_window_blocks{model=\"m\",state=\"active\"} 6",
                           "tutti_kv_window_blocks{model=\"m\",state=\"cached\"} 5",
                           "tutti_kv_evicted_window_blocks_total{model=\"m\"} 4",
                           "tutti_state_slots{model=\"m\",state=\"free\"} 3",
                           "tutti_state_slots{model=\"m\",state=\"active\"} 2",
                           "tutti_state_slots{model=\"m\",state=\"cached\"} 8",
                           "tutti_state_evicted_checkpoints_total{model=\"m\"} 9",
                           // The kind of blocks that runs short first.
                           "tutti_kv_usage_ratio{model=\"m\"} 0.5",
                           "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.5"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(ServingMetrics, ADroppedModelMayBeTheLastThingAScrapeHeld) {
  MetricsRegistry registry;
  auto metrics = std::make_shared<ServingMetrics>(registry, WithAliases());
  metrics->SetEngineGauges([&] {
    metrics.reset();  // destroyed during the scrape
    return ServingMetrics::EngineGauges{.running = 1};
  });
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_running_sequences{model=\"m\"} 1"));
}

TEST(EncoderMetrics, BesideADecoderTheGaugesOfTheQueueAreTheDecoders) {
  MetricsRegistry registry;
  ServingMetrics::Options options;
  options.model = "m";
  ServingMetrics decoder(registry, options);
  decoder.SetEngineGauges([] {
    ServingMetrics::EngineGauges gauges;
    gauges.waiting = 7;
    gauges.heartbeat_age_s = 3;
    return gauges;
  });
  EncoderMetrics vectors(registry, {.model = "m", .with_decoder = true});
  vectors.SetGauges([] {
    EncoderMetrics::Gauges gauges;
    gauges.requests = 1;
    gauges.waiting_items = 5;
    return gauges;
  });
  const std::string text = registry.Expose();
  EXPECT_THAT(
      text,
      HasSubstr(
          "tutti_queue_requests{lane=\"interactive\",model=\"m\",priority=\"interactive\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("tutti_engine_heartbeat_age_seconds{model=\"m\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("tutti_encode_waiting_items{model=\"m\"} 5\n"));
}

#ifndef TUTTI_SANITIZED
TEST(ServingMetrics, WhatTheEngineAndTheServersTellAllocatesNothing) {
  MetricsRegistry registry;
  ServingMetrics metrics(registry, WithAliases());
  EncoderMetrics encoder(registry, {.model = "e"});
  ServerMetrics servers(registry);
  const auto tell = [&] {
    metrics.RequestAccepted(10, 20, 1);
    metrics.QueueWait(std::chrono::microseconds(200));
    metrics.FirstToken(std::chrono::milliseconds(15));
    metrics.InterToken(std::chrono::milliseconds(5));
    metrics.Step(StepKind::kMixed, std::chrono::milliseconds(5), 12, 2);
    metrics.PrefixLookup(10, 4);
    metrics.Preemption(PreemptionCause::kBlocks);
    metrics.WastedTokens(WasteCause::kCancelled, 7);
    metrics.LogitsNotFinite();
    metrics.RequestCancelled(CancelCause::kDeadline, RequestPhase::kPrefill);
    metrics.RequestFinished({.reason = FinishKind::kAbort, .output_tokens = 4});
    servers.Stage("queue", std::chrono::milliseconds(1));
    servers.InFlight(OpKind::kChat, 1);
    servers.StreamsOpen(ServerKind::kHttp, 1);
    servers.SlowReaderCancelled(ServerKind::kHttp);
    servers.ConnectionReset(ServerKind::kGrpc);
    servers.ServerRequest(ServerKind::kHttp, OpKind::kChat, 429, std::chrono::milliseconds(31));
    encoder.RequestAccepted(3, 40);
    encoder.BatchRan({.cause = DispatchCause::kFull, .items = 3, .tokens = 40});
    encoder.RequestFinished({.queue = std::chrono::milliseconds(1), .wasted_tokens = 5});
  };
  tell();  // makes the series of the servers
  armed = true;
  for (int i = 0; i < 10; ++i) tell();
  armed = false;
  EXPECT_EQ(allocations, 0u);
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_logits_not_finite_total{model=\"m\"} 11\n"));
  EXPECT_THAT(registry.Expose(), HasSubstr("tutti_requests_total{code=\"429\",door=\"http\","
                                           "op=\"chat\",server=\"http\"} 11"));
}
#endif

}  // namespace
}  // namespace tutti::telemetry
