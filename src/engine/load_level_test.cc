// Row N51: green, yellow and red. What requests of the lower classes may fill, and what the
// process's memory refuses.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/admission_state.h"
#include "engine/testing/encoder_harness.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using api::LoadLevel;
using api::Priority;
using testing::EncoderHarness;
using testing::EngineHarness;
using testing::TestEncoding;
using testing::TestPrompt;
using testing::TestRequest;

Request Of(Priority priority, int tokens = 5) {
  static int number = 0;
  Request request = TestRequest(TestPrompt(++number, tokens), 10);
  request.priority = priority;
  return request;
}

EngineOptions FewPlaces() {
  EngineOptions options;
  options.scheduler.max_num_seqs = 4;
  options.queue.requests = 10;
  return options;
}

TEST(LoadLevel, SharesBecomeLevels) {
  EXPECT_EQ(api::LevelOf(0), LoadLevel::kGreen);
  EXPECT_EQ(api::LevelOf(0.7999), LoadLevel::kGreen);
  EXPECT_EQ(api::LevelOf(0.8), LoadLevel::kYellow);
  EXPECT_EQ(api::LevelOf(0.9799), LoadLevel::kYellow);
  EXPECT_EQ(api::LevelOf(0.98), LoadLevel::kRed);
  EXPECT_EQ(api::LevelOf(5), LoadLevel::kRed);
}

TEST(LoadLevel, TheLastFifthOfThePlacesIsForInteractiveRequests) {
  EngineHarness h(FewPlaces());
  const auto level = [&h] { return h.engine().Load().level; };
  for (int i = 0; i < 4 + 7; ++i) h.MustSubmit(Of(Priority::kBatch));
  EXPECT_EQ(level(), LoadLevel::kGreen);
  h.MustSubmit(Of(Priority::kFlex));
  EXPECT_EQ(level(), LoadLevel::kYellow);
  for (const Priority lower : {Priority::kBatch, Priority::kFlex}) {
    const Status refused = h.Submit(Of(lower)).status();
    EXPECT_EQ(refused.reason(), "queue_full");
    EXPECT_TRUE(refused.retry_after().has_value());
    EXPECT_EQ(
        refused.message(),
        "all 4 sequences and 8 places in the queue that requests of this class may have are taken");
  }
  h.MustSubmit(Of(Priority::kInteractive));
  h.MustSubmit(Of(Priority::kInteractive));
  EXPECT_EQ(level(), LoadLevel::kRed);
  EXPECT_EQ(h.Submit(Of(Priority::kInteractive)).status().message(),
            "all 4 sequences and 10 places in the queue are taken");
  EXPECT_EQ(h.engine().stats().refused, 3u);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(level(), LoadLevel::kGreen);
  h.MustSubmit(Of(Priority::kBatch));
  ASSERT_TRUE(h.RunToEnd());
}

TEST(LoadLevel, AnEmptyQueueTakesWhatFitsAtAllOfAnyClass) {
  EngineOptions options = FewPlaces();
  options.scheduler.max_num_seqs = 1;
  options.queue.requests = 5;  // of which lower classes get four
  EngineHarness h(options);
  Request six = Of(Priority::kBatch);
  six.n = 6;
  EXPECT_TRUE(h.Submit(std::move(six)).ok());
  ASSERT_TRUE(h.RunToEnd());
  options.queue.requests = 0;
  EngineHarness none(options);
  EXPECT_TRUE(none.Submit(Of(Priority::kBatch)).ok());
  EXPECT_EQ(none.engine().Load().level, LoadLevel::kGreen) << "what runs does not wait";
  EXPECT_FALSE(none.Submit(Of(Priority::kBatch)).ok());
  EXPECT_FALSE(none.Submit(Of(Priority::kInteractive)).ok());
  ASSERT_TRUE(none.RunToEnd());
}

// The bound on KV memory is for waiting prompts, a multiple of the cache's size. A full cache alone
// refuses no request: running sequences are preempted and finish later.
TEST(LoadLevel, TheLastFifthOfTheWaitingTokensIsForInteractiveRequests) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 1;
  options.queue.prompt_tokens_per_kv_token = 0.25;
  testing::FakeModelOptions model;
  model.limits.kv_blocks = 128;  // 1,024 tokens may wait, 820 of the lower classes
  EngineHarness h(options, model);
  h.MustSubmit(Of(Priority::kBatch, 200));
  for (int i = 0; i < 3; ++i) h.MustSubmit(Of(Priority::kBatch, 200));
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kGreen);
  EXPECT_EQ(h.Submit(Of(Priority::kBatch, 200)).status().reason(), "queue_full");
  h.MustSubmit(Of(Priority::kBatch, 20));
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kYellow) << "820 of 1,024";
  EXPECT_EQ(h.Submit(Of(Priority::kFlex, 1)).status().reason(), "queue_full");
  h.MustSubmit(Of(Priority::kInteractive, 200));
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kRed);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kGreen);
}

TEST(LoadLevel, TheProcesssMemoryRefusesLowerClassesFirst) {
  std::atomic<LoadLevel> memory{LoadLevel::kGreen};
  EngineHarness h(FewPlaces(), {}, {}, false, &memory);
  const auto ask = [&h](Priority priority) {
    const Status status = h.Submit(Of(priority)).status();
    EXPECT_TRUE(status.ok() || status.retry_after().has_value());
    return status.ok() ? std::string("taken") : status.reason();
  };
  EXPECT_EQ(ask(Priority::kBatch), "taken");
  memory = LoadLevel::kYellow;
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kYellow);
  EXPECT_EQ(ask(Priority::kBatch), "overloaded");
  EXPECT_EQ(ask(Priority::kFlex), "overloaded");
  EXPECT_EQ(ask(Priority::kInteractive), "taken");
  memory = LoadLevel::kRed;
  EXPECT_EQ(h.engine().Load().level, LoadLevel::kRed);
  EXPECT_EQ(ask(Priority::kInteractive), "overloaded");
  ASSERT_TRUE(h.RunToEnd());
  memory = LoadLevel::kGreen;
  EXPECT_EQ(ask(Priority::kBatch), "taken");
  ASSERT_TRUE(h.RunToEnd());
}

TEST(LoadLevel, EncodersKeepTheLastFifthOfTheirBoundsToo) {
  EncoderOptions options;
  options.items = 20;
  EncoderHarness h(options);
  const auto of = [](Priority priority, size_t items) {
    TokenizedRequest request = TestEncoding(7, std::vector<int>(items, 8));
    request.priority = priority;
    return request;
  };
  EXPECT_TRUE(h.Submit(of(Priority::kBatch, 15)).ok());
  EXPECT_EQ(h.engine().stats().level, LoadLevel::kGreen);
  EXPECT_EQ(h.Submit(of(Priority::kBatch, 2)).status().reason(), "queue_full");
  EXPECT_TRUE(h.Submit(of(Priority::kBatch, 1)).ok());
  EXPECT_EQ(h.engine().stats().level, LoadLevel::kYellow);
  EXPECT_TRUE(h.Submit(of(Priority::kInteractive, 4)).ok());
  EXPECT_EQ(h.engine().stats().level, LoadLevel::kRed);
  EXPECT_EQ(h.Submit(of(Priority::kInteractive, 1)).status().reason(), "queue_full");
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_TRUE(h.Submit(of(Priority::kBatch, 20)).ok()) << "an empty queue takes it";
  ASSERT_TRUE(h.RunToEnd());
}

}  // namespace
}  // namespace tutti::engine
