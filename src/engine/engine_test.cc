#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "engine/decoder_instance.h"
#include "engine/testing/fake_model_runner.h"

namespace tutti::engine {
namespace {

using testing::FakeModelOptions;
using testing::FakeModelRunner;
using testing::FakeTokenText;

std::vector<TokenId> Prompt(int from, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(1 + (from * 7 + i * 3) % 60);
  return tokens;
}

Request MakeRequest(std::vector<TokenId> prompt, int max_tokens, double temperature = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = temperature;
  request.seed = 17;
  return request;
}

std::vector<TokenId> TokensOf(api::Generation& generation, int choice = 0) {
  std::vector<TokenId> tokens;
  api::TokenStream::Cursor cursor(generation.stream());
  while (const api::StreamEvent* event = cursor.Next()) {
    if (event->kind == api::StreamEvent::Kind::kToken && event->choice == choice)
      tokens.push_back(event->token);
  }
  return tokens;
}

TEST(Engine, AnswersOneRequestWithItsSoloOutputAndOneTerminalEvent) {
  FakeModelRunner runner({});
  FakeTokenText text;
  SteadyClock clock;
  Engine engine({}, {&runner, &text, &clock});
  Result<api::Generation> g = engine.Submit(MakeRequest(Prompt(1, 50), 20), nullptr);
  ASSERT_TRUE(g.ok()) << g.status();
  while (engine.RunOneStep()) {
  }
  ASSERT_TRUE(g->stream().ended());
  EXPECT_TRUE(g->stream().status().ok());
  api::SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(TokensOf(*g), runner.Solo(Prompt(1, 50), {&greedy, {}, {}, {}, 17, 0}, 20));
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
  EXPECT_EQ(engine.Load().kv_blocks_used, 0);
}

TEST(Engine, ServesManyThreadsAndDrains) {
  FakeModelRunner runner({});
  FakeTokenText text;
  SteadyClock clock;
  Engine engine({}, {&runner, &text, &clock});
  engine.Start();
  std::vector<api::Generation> generations(40);
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = t; i < 40; i += 4) {
          Result<api::Generation> g =
              engine.Submit(MakeRequest(Prompt(i, 3 + i), 10 + i % 7), nullptr);
          ASSERT_TRUE(g.ok()) << g.status();
          generations[static_cast<size_t>(i)] = *std::move(g);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  generations[7].Cancel();
  EXPECT_TRUE(engine.Drain(clock.Now() + std::chrono::seconds(20)));
  api::SamplingParams greedy;
  greedy.temperature = 0;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(generations[static_cast<size_t>(i)].stream().ended());
    if (i == 7) continue;
    EXPECT_EQ(TokensOf(generations[static_cast<size_t>(i)]),
              runner.Solo(Prompt(i, 3 + i), {&greedy, {}, {}, {}, 17, 0}, 10 + i % 7));
  }
  EXPECT_EQ(engine.Submit(MakeRequest(Prompt(1, 3), 1), nullptr).status().reason(), "draining");
  EXPECT_THAT(runner.violations(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tutti::engine
