// Batches (U79): order, progress, seeds, the limit of what is in progress, and failures that stay
// where they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "library/testing/models.h"

namespace tutti {
namespace {

using library::testing::Amount;
using library::testing::Prompts;
using library::testing::RealModel;
using library::testing::TinyModel;
using library::testing::TinyOptions;

std::vector<Prompt> TextPrompts(int count) {
  std::vector<Prompt> prompts;
  for (std::string& text : Prompts(count)) prompts.push_back(Text{std::move(text)});
  return prompts;
}

SamplingParams Hot(int max_tokens, int64_t seed) {
  return {.temperature = 1.5, .seed = seed, .max_tokens = max_tokens, .ignore_eos = true};
}

std::vector<std::vector<TokenId>> TokensOf(const std::vector<Expected<Completion>>& results) {
  std::vector<std::vector<TokenId>> tokens;
  for (const auto& result : results) tokens.push_back(result->tokens());
  return tokens;
}

// Records, on a separate thread, the number of concurrent requests of a model.
class Watch {
 public:
  explicit Watch(const Model& model) : model_(model), thread_([this] { Run(); }) {}
  ~Watch() { Most(); }
  int Most() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return max_;
  }

 private:
  void Run() {
    while (!stop_) {
      const Stats stats = model_.stats();
      max_ = std::max(max_, stats.running + stats.waiting);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  const Model& model_;
  std::atomic<bool> stop_{false};
  int max_ = 0;
  std::thread thread_;
};

void ExpectOrderProgressAndRepetition(const Model& model, int count, int tokens, int degree) {
  const std::vector<Prompt> prompts = TextPrompts(count);
  std::vector<size_t> progress;
  BatchOptions options{.sampling = Hot(tokens, 1000), .degree = degree};
  options.progress = [&](size_t done, size_t total) {
    EXPECT_EQ(total, prompts.size());
    progress.push_back(done);
  };
  Watch watch(model);
  const auto results = GenerateBatch(model, prompts, options).value();
  EXPECT_LE(watch.Most(), degree);
  ASSERT_EQ(progress.size(), prompts.size());
  for (size_t i = 0; i < progress.size(); ++i)
    EXPECT_EQ(progress[i], i + 1) << "strictly rising by one";
  // Each result belongs to its own prompt and seed.
  std::set<std::vector<TokenId>> different;
  for (size_t i = 0; i < prompts.size(); ++i) {
    different.insert(results[i]->tokens());
    if (i % 7 != 0) continue;
    const Completion alone =
        model
            .Generate(
                {.prompt = prompts[i], .sampling = Hot(tokens, 1000 + static_cast<int64_t>(i))})
            .value();
    EXPECT_EQ(results[i]->tokens(), alone.tokens()) << i;
  }
  EXPECT_GT(different.size(), prompts.size() / 2);
  options.degree = degree + 3;  // the answers do not depend on it
  options.progress = nullptr;
  EXPECT_EQ(TokensOf(GenerateBatch(model, prompts, options).value()), TokensOf(results));
}

TEST(BatchTest, AHundredPromptsComeBackInOrderAndTwiceTheSame) {
  ExpectOrderProgressAndRepetition(TinyModel(TinyOptions()), 100, 20, 5);
}

TEST(BatchTest, TheRealModelToo) {
  ExpectOrderProgressAndRepetition(RealModel(), Amount(100, 6), 3, 8);
}

TEST(BatchTest, NeverMoreThanTheDegreeIsInProgress) {
  const Model model = TinyModel(TinyOptions());
  for (const int degree : {1, 3, 8, 20}) {
    Watch watch(model);
    ASSERT_TRUE(
        GenerateBatch(model, TextPrompts(60), {.sampling = Hot(40, 1), .degree = degree}).ok());
    const int most = watch.Most();
    EXPECT_LE(most, degree);
    if (degree <= 8) {
      EXPECT_GE(most, std::min(degree, 2)) << "and they do overlap";
    }
  }
}

TEST(BatchTest, TheDegreeIsTheProcessorsUnlessSaid) {
  const Model model = TinyModel(TinyOptions());
  Watch watch(model);
  ASSERT_TRUE(GenerateBatch(model, TextPrompts(60), {.sampling = Hot(40, 1)}).ok());
  EXPECT_LE(watch.Most(), UsableCores());
}

TEST(BatchTest, APromptThatFailsLeavesItsErrorInItsPlace) {
  const Model model = TinyModel(TinyOptions());
  std::vector<Prompt> prompts = TextPrompts(9);
  prompts[0] = Text{""};
  prompts[4] = Tokens{{1 << 30}};
  prompts[8] = Text{std::string(100'000, 'b')};
  size_t last = 0;
  const auto results = GenerateBatch(model, prompts,
                                     {.sampling = Hot(4, 1),
                                      .degree = 2,
                                      .progress = [&](size_t done, size_t) { last = done; }})
                           .value();
  EXPECT_EQ(last, 9u);
  EXPECT_EQ(results[0].error().reason(), "empty_prompt");
  EXPECT_EQ(results[4].error().reason(), "token_out_of_range");
  EXPECT_EQ(results[8].error().reason(), "context_length_exceeded");
  for (const size_t i : {1, 2, 3, 5, 6, 7}) EXPECT_TRUE(results[i].ok()) << i;
}

TEST(BatchTest, WhatTheProgressCallbackThrowsEndsTheBatchAndReachesTheCaller) {
  const Model model = TinyModel(TinyOptions());
  BatchOptions options{.sampling = Hot(200, 1), .degree = 4};
  options.progress = [](size_t done, size_t) {
    if (done == 2) throw std::out_of_range("two");
  };
  const auto results = GenerateBatch(model, TextPrompts(30), options);
  EXPECT_EQ(results.error().reason(), "handler_failed");
  EXPECT_THROW(results.value(), std::out_of_range);
  ASSERT_TRUE(model.Generate({.prompt = Text{"x"}, .sampling = Hot(1, 1)}).ok());
  for (int i = 0; i < 2000 && model.stats().running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(model.stats().running + model.stats().waiting, 0) << "the others were cancelled";
}

TEST(BatchTest, AQueueThatIsTooShortSlowsABatchAndDoesNotFailIt) {
  const Model model = TinyModel(TinyOptions().MaxNumSeqs(1).Queue(1));
  const auto results =
      GenerateBatch(model, TextPrompts(20), {.sampling = Hot(5, 1), .degree = 6}).value();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.error().ToString();
}

TEST(BatchTest, NoPromptIsNoWork) {
  const Model model = TinyModel(TinyOptions());
  EXPECT_TRUE(GenerateBatch(model, {}, {}).value().empty());
}

}  // namespace
}  // namespace tutti
