// One immutable model under many threads (U78), and generators three ways (U80).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "library/testing/models.h"

namespace tutti {
namespace {

using library::testing::Amount;
using library::testing::Greedy;
using library::testing::Prompts;
using library::testing::RealModel;
using library::testing::Sampled;
using library::testing::TinyModel;
using library::testing::TinyOptions;

// Every call stands on a const Model: nothing of the interface writes to one.
static_assert(requires(const Model& m, StepState& state) {
  m.Generate(Request{});
  m.Submit(Request{});
  m.Spawn(Request{}, [](const Token&) {});
  m.CreateState(Request{});
  m.Step(state);
  m.Tokenize(Text{});
  m.Detokenize({});
  m.Render(Chat{});
  m.info();
  m.stats();
});

struct Pages {
  uintptr_t begin = 0, end = 0;
  bool operator<(const Pages& other) const { return begin < other.begin; }
  uint64_t Hash() const {  // FNV over words
    uint64_t hash = 1469598103934665603u;
    for (uintptr_t at = begin; at + 8 <= end; at += 8) {
      uint64_t word;
      std::memcpy(&word, reinterpret_cast<const void*>(at), 8);
      hash = (hash ^ word) * 1099511628211u;
    }
    return hash;
  }
};

// Read-only anonymous mappings, which hold loaded weights.
std::set<Pages> ReadOnlyAnonymous() {
  std::set<Pages> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, access, offset, device, inode, path;
    fields >> range >> access >> offset >> device >> inode >> path;
    if (access != "r--p" || !path.empty()) continue;
    found.insert({std::stoull(range.substr(0, range.find('-')), nullptr, 16),
                  std::stoull(range.substr(range.find('-') + 1), nullptr, 16)});
  }
  return found;
}

Request Mixed(const std::string& prompt, int index, int tokens) {
  return index % 2 == 0 ? Greedy(prompt, tokens) : Sampled(prompt, tokens, index);
}

void ExpectThreadsEqualSequential(const Model& model, int threads, int generations, int tokens) {
  const std::vector<std::string> prompts = Prompts(generations);
  const auto request = [&](int i) { return Mixed(prompts[static_cast<size_t>(i)], i, tokens); };
  std::vector<Completion> sequential;
  for (int i = 0; i < generations; ++i) sequential.push_back(model.Generate(request(i)).value());
  std::vector<int> wrong(static_cast<size_t>(threads), 0);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int k = 0; k < generations; ++k) {
        const int i = (k + t * 13) % generations;  // each thread in an order of its own
        const auto answer = model.Generate(request(i));
        const Completion& expected = sequential[static_cast<size_t>(i)];
        if (!answer.ok() || answer->tokens() != expected.tokens() ||
            answer->text() != expected.text() ||
            model.Detokenize(model.Tokenize(Text{prompts[static_cast<size_t>(i)]}).value())
                    .value() != prompts[static_cast<size_t>(i)]) {
          ++wrong[static_cast<size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(static_cast<size_t>(threads), 0));
}

TEST(SharedModelTest, EightThreadsOfAHundredGenerationsEqualTheSequentialOnes) {
  ExpectThreadsEqualSequential(TinyModel(TinyOptions()), 8, Amount(100, 20), 12);
}

TEST(SharedModelTest, EightThreadsOnTheRealModelToo) {
  ExpectThreadsEqualSequential(RealModel(), 8, Amount(100, 2), Amount(4, 2));
}

TEST(SharedModelTest, WeightPagesAreReadOnlyAndBitEqualAfterGenerating) {
  const std::set<Pages> before = ReadOnlyAnonymous();
  const Model model =
      Model::Load(ModelOptions(support::DefaultModelPath()).KvCacheBytes(size_t{64} << 20)).value();
  std::vector<Pages> weights;
  size_t bytes = 0;
  for (const Pages& pages : ReadOnlyAnonymous()) {
    if (before.contains(pages)) continue;
    weights.push_back(pages);
    bytes += pages.end - pages.begin;
  }
  ASSERT_GT(bytes, size_t{80} << 20)
      << "the weights of 135 million parameters are mapped read-only";
  std::vector<uint64_t> hashes;
  for (const Pages& pages : weights) hashes.push_back(pages.Hash());
  ASSERT_TRUE(model.Generate(Greedy("Once upon a time", 8)).ok());
  std::vector<Job> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(model.Submit(Sampled("The sea is", 6, i)).value());
  for (Job& job : jobs) ASSERT_TRUE(job.Join().ok());
  const std::set<Pages> after = ReadOnlyAnonymous();
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(after.contains(weights[i])) << "still read-only";
    EXPECT_EQ(weights[i].Hash(), hashes[i]);
  }
}

// --- generators ---

TEST(GeneratorTest, ReuseAfterAnotherPromptLeavesNoTrace) {
  const Model model = TinyModel(TinyOptions());
  const SamplingParams params{
      .temperature = 1.2, .repetition_penalty = 1.5, .seed = 11, .max_tokens = 20};
  const auto fresh = [&](const char* prompt) {
    return Generator(model, params).Generate(Text{prompt}).value().tokens();
  };
  Generator reused(model, params);
  for (const char* prompt : {"The sea is", "hello", "x", "hello", "The sea is"}) {
    EXPECT_EQ(reused.Generate(Text{prompt}).value().tokens(), fresh(prompt)) << prompt;
  }
  // Also after a failure, and after an interrupted run.
  EXPECT_FALSE(reused.Generate(Text{""}).ok());
  EXPECT_TRUE(reused.Generate(Text{"x"}, [](const Token&) { return false; }).ok());
  EXPECT_FALSE(reused.Generate(Text{"x"}, [](const Token&) { throw 1; }).ok());
  EXPECT_EQ(reused.Generate(Text{"hello"}).value().tokens(), fresh("hello"));
}

TEST(GeneratorTest, OnePerThreadAnswersAsOneAlone) {
  const Model model = TinyModel(TinyOptions());
  const SamplingParams params{.temperature = 0, .max_tokens = 15, .ignore_eos = true};
  const std::vector<std::string> prompts = Prompts(20);
  std::vector<std::vector<TokenId>> alone;
  for (const std::string& prompt : prompts)
    alone.push_back(Generator(model, params).Generate(Text{prompt})->tokens());
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Generator mine(model, params);
      for (size_t i = 0; i < prompts.size(); ++i) {
        equal[t] += mine.Generate(Text{prompts[i]}).value().tokens() == alone[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 20));
}

TEST(GeneratorTest, InterruptEndsWhatRuns) {
  const Model model = TinyModel(TinyOptions());
  Generator generator(model, {.temperature = 0, .max_tokens = 1900, .ignore_eos = true});
  generator.Interrupt();  // nothing runs: nothing happens
  // On a busy machine an answer of some milliseconds may end before the other thread runs.
  bool cancelled = false;
  for (int attempt = 0; attempt < 50 && !cancelled; ++attempt) {
    std::thread other;
    const Completion answer = generator
                                  .Generate(Text{"hello"},
                                            [&](const Token&) {
                                              if (!other.joinable())
                                                other = std::thread([&] { generator.Interrupt(); });
                                            })
                                  .value();
    other.join();
    cancelled = answer.finish_reason() == FinishReason::kCancelled;
    EXPECT_EQ(answer.tokens().size() < 1900u, cancelled);
  }
  EXPECT_TRUE(cancelled);
}

TEST(GeneratorPoolTest, KeepsAtMostTenAndGivesBackByItself) {
  const Model model = TinyModel(TinyOptions());
  GeneratorPool pool(model, {.temperature = 0, .max_tokens = 4}, 50);
  EXPECT_EQ(pool.kept(), 0u);
  {
    std::vector<GeneratorPool::Lease> leases;
    for (int i = 0; i < 25; ++i) leases.push_back(pool.Rent());
    EXPECT_EQ(pool.rented(), 25u);
    for (auto& lease : leases) EXPECT_TRUE(lease->Generate(Text{"hello"}).ok());
  }
  EXPECT_EQ(pool.rented(), 0u);
  EXPECT_EQ(pool.kept(), 10u);
  const GeneratorPool::Lease lease = pool.Rent();
  EXPECT_EQ(pool.kept(), 9u);
}

TEST(GeneratorPoolTest, AnExceptionReturnsTheGenerator) {
  const Model model = TinyModel(TinyOptions());
  GeneratorPool pool(model, {.temperature = 0, .max_tokens = 4});
  try {
    GeneratorPool::Lease lease = pool.Rent();
    lease->Generate(Text{"hello"}, [](const Token&) { throw std::runtime_error("no more"); })
        .value();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no more");
  }
  EXPECT_EQ(pool.rented(), 0u);
  EXPECT_EQ(pool.kept(), 1u);
}

TEST(GeneratorPoolTest, WhatATenantChangedIsSetBackForTheNext) {
  const Model model = TinyModel(TinyOptions());
  GeneratorPool pool(model, {.temperature = 0, .max_tokens = 4});
  Generator* first;
  {
    GeneratorPool::Lease lease = pool.Rent();
    first = &*lease;
    lease->sampling().max_tokens = 9;
    lease->sampling().temperature = 2;
  }
  GeneratorPool::Lease again = pool.Rent();
  EXPECT_EQ(&*again, first) << "the same one";
  EXPECT_EQ(again->sampling().max_tokens, 4);
  EXPECT_EQ(again->Generate(Text{"hello"}).value().tokens(),
            Generator(model, {.temperature = 0, .max_tokens = 4})
                .Generate(Text{"hello"})
                .value()
                .tokens());
}

TEST(GeneratorPoolTest, ManyThreadsRentAtOnceAndALeaseMayOutliveThePool) {
  const Model model = TinyModel(TinyOptions());
  std::optional<GeneratorPool::Lease> late;
  {
    GeneratorPool pool(model, {.temperature = 0, .max_tokens = 2});
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 25; ++i) {
          GeneratorPool::Lease lease = pool.Rent();
          if (i % 5 == 0) {
            EXPECT_TRUE(lease->Generate(Text{"x"}).ok());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(pool.kept(), 10u);
    EXPECT_EQ(pool.rented(), 0u);
    late = pool.Rent();
  }
  EXPECT_TRUE((*late)->Generate(Text{"x"}).ok());
}

}  // namespace
}  // namespace tutti
