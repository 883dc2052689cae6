#include "engine/adapter.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using testing::EngineHarness;
using testing::FakeAdapter;
using testing::TestPrompt;
using testing::TestRequest;

Request AdaptedRequest(const std::shared_ptr<const Adapter>& adapter, int max_tokens = 4) {
  Request request = TestRequest(TestPrompt(1, 200), max_tokens);
  request.adapter = adapter;
  return request;
}

TEST(EngineAdapter, PrefixesAreReusedUnderTheSameAdapterAlone) {
  EngineHarness h;
  const auto a = std::make_shared<FakeAdapter>("a"), b = std::make_shared<FakeAdapter>("b");
  const auto again = std::make_shared<FakeAdapter>("a");  // the same contents, loaded again
  EXPECT_GE(h.TokensComputed(AdaptedRequest(nullptr)), 203);
  EXPECT_GE(h.TokensComputed(AdaptedRequest(a)), 203);
  EXPECT_GE(h.TokensComputed(AdaptedRequest(b)), 203);
  EXPECT_LT(h.TokensComputed(AdaptedRequest(nullptr)), 40);
  EXPECT_LT(h.TokensComputed(AdaptedRequest(a)), 40);
  EXPECT_LT(h.TokensComputed(AdaptedRequest(again)), 40);
  EXPECT_EQ(h.FindFault(), "");
}

TEST(EngineAdapter, AdaptersShareStepsAndGiveTheirSoloOutputs) {
  testing::FakeModelOptions model;
  model.limits.kv_blocks = 256;
  EngineHarness h({}, model);
  std::vector<std::shared_ptr<const Adapter>> adapters = {nullptr};
  for (const char* name : {"a", "b", "c", "d"})
    adapters.push_back(std::make_shared<FakeAdapter>(name));
  std::vector<size_t> clients;
  for (int i = 0; i < 10; ++i)
    clients.push_back(h.MustSubmit(AdaptedRequest(adapters[static_cast<size_t>(i) % 5], 12)));
  EXPECT_TRUE(h.RunToEnd());
  EXPECT_LT(h.runner().steps(), 60u);  // they do not run one after another
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(h.client(clients[static_cast<size_t>(i)]).choices[0].tokens,
              h.client(clients[static_cast<size_t>(i + 5)]).choices[0].tokens);
    EXPECT_NE(h.client(clients[static_cast<size_t>(i)]).choices[0].tokens,
              h.client(clients[static_cast<size_t>((i + 1) % 5)]).choices[0].tokens);
  }
  EXPECT_EQ(h.FindFault(), "");
}

TEST(EngineAdapter, CountsTheSequencesThatUseIt) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 2;
  EngineHarness h(options);
  const auto adapter = std::make_shared<FakeAdapter>("a");
  for (int i = 0; i < 3; ++i) h.MustSubmit(AdaptedRequest(adapter, 12));
  ASSERT_TRUE(h.RunUntil([&] { return adapter->use().running.load() == 2; }));
  EXPECT_EQ(adapter->use().waiting.load(), 1);
  EXPECT_TRUE(h.RunToEnd());
  EXPECT_EQ(adapter->use().running.load(), 0);
  EXPECT_EQ(adapter->use().waiting.load(), 0);
}

TEST(EngineAdapter, ARequestKeepsItsAdapterUntilItEnds) {
  EngineHarness h;
  auto adapter = std::make_shared<FakeAdapter>("a");
  const std::weak_ptr<const Adapter> watched = adapter;
  const size_t client = h.MustSubmit(AdaptedRequest(adapter, 8));
  h.client(client).request.adapter = nullptr;  // the harness has a copy
  adapter.reset();
  while (h.client(client).choices[0].tokens.size() < 2) ASSERT_TRUE(h.RunOnce());
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(h.RunToEnd());
  EXPECT_TRUE(h.client(client).status().ok());
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace tutti::engine
