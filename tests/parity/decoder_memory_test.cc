// Row R14: the memory of sequences that is more than blocks, with real models: in an engine whose
// memory is short, with several turns, several choices and preemption, each row has the bits that
// it has in one sequence alone, whose memory is ample and never reused.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "decoder_families.h"
#include "engine/decoder_instance.h"
#include "engine/engine.h"
#include "engine/invariants.h"
#include "engine/policy/window.h"
#include "engine/testing/engine_harness.h"
#include "engine/testing/fake_prefix_store.h"
#include "kernels/kernels.h"
#include "runner/cpu_model_runner.h"

namespace tutti::parity {
namespace {

constexpr int kTogether = 3;
constexpr int kPromptChunk = 32;

struct ServedAnswers {
  std::vector<std::vector<TokenId>> answers;  // of each request's choices, one after the other
  std::vector<int> cached;                    // tokens of each request's prompt
  // A hash of the logits of each row, by wave, by sequence in the order of submission, and by
  // position.
  std::map<std::tuple<int, uint32_t, int>, uint64_t> rows;
  int changed = 0;  // rows that were computed again, to other bits
  engine::EngineStats stats;
  std::string violation;
};

// Runs `waves` of requests, each when the one before has ended.
class MemoryServer {
 public:
  // `store`: keeps prefixes there, and makes it if it is null.
  MemoryServer(std::shared_ptr<const model::Weights> weights, bool ample,
               std::unique_ptr<engine::testing::FakePrefixStore>* store = nullptr) {
    runner::CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
    options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
    const model::ModelConfig& config = weights->config();
    options.context = config.context_length;
    options.max_step_tokens = kPromptChunk + kTogether;
    options.kv_bytes = size_t{4} << 20;
    options.state_slots = ample ? 2 : kTogether + 10;
    options.logits_tap = [this](uint32_t sequence, int position, std::span<const float> logits) {
      const uint64_t hash = HashOfBytes(std::string_view(
          reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)));
      const std::lock_guard lock(mutex_);
      const auto [at, added] =
          served_.rows.try_emplace({wave_, alone_in_wave_ ? 0 : sequence, position}, hash);
      if (!added && at->second != hash) ++served_.changed;
    };
    if (!ample) {
      const int blocks = 14;  // a sequence may need 8, so fewer than three need
      options.kv_bytes = blocks * runner::CpuModelRunner::KvBlockBytes(*weights, *options.kernels);
      if (config.window > 0) {
        options.kv_blocks = blocks;
        options.window_blocks = kTogether * (engine::WindowBlocks(config.window, kPromptChunk) + 1);
        EXPECT_LT(options.window_blocks, blocks);
      }
    }
    runner_ = *runner::CpuModelRunner::Create(std::move(weights), options);
    engine::EngineOptions engine_options;
    engine_options.scheduler.max_num_seqs = ample ? 1 : kTogether;
    engine_options.scheduler.prefill_chunk = engine_options.scheduler.prefill_chunk_alone =
        kPromptChunk;
    engine_options.scheduler.prefix_cache = !ample;
    // Texts that repeat themselves would end early, and need less memory together.
    engine_options.scheduler.speculate = false;
    engine_options.queue.prompt_tokens_per_kv_token = 1e6;
    if (store != nullptr && *store == nullptr)
      *store = std::make_unique<engine::testing::FakePrefixStore>(runner_->memory_shape());
    engine_ = std::make_unique<engine::Engine>(
        engine_options,
        engine::EngineDependencies{.runner = runner_.get(),
                                   .text = &text_,
                                   .clock = &clock_,
                                   .prefixes = store != nullptr ? store->get() : nullptr});
  }

  void Serve(const std::vector<engine::Request>& requests) {
    ++wave_;
    // Numbers of sequences that have ended are given to later ones.
    alone_in_wave_ = requests.size() == 1 && requests[0].n == 1;
    CHECK(alone_in_wave_ || wave_ == 1);
    std::vector<api::Generation> generations;
    const size_t first = served_.answers.size();
    std::vector<size_t> begins;
    for (const engine::Request& request : requests) {
      begins.push_back(served_.answers.size());
      served_.answers.resize(served_.answers.size() + static_cast<size_t>(request.n));
      served_.cached.push_back(0);
      generations.push_back(*engine_->Submit(engine::Request(request), nullptr));
    }
    for (size_t ended = 0; ended < generations.size();) {
      (void)engine_->RunOneStep();
      engine::TakeSnapshot(engine_->decoder_for_test(), &snapshot_);
      if (served_.violation.empty()) served_.violation = engine::FindViolation(snapshot_);
      for (size_t i = 0; i < generations.size(); ++i) {
        while (const api::StreamEvent* event = generations[i].Next()) {
          generations[i].Consumed(event->text.size());
          if (event->kind == api::StreamEvent::Kind::kToken)
            served_.answers[begins[i] + static_cast<size_t>(event->choice)].push_back(event->token);
          if (event->kind != api::StreamEvent::Kind::kEnd) continue;
          EXPECT_TRUE(generations[i].stream().status().ok()) << generations[i].stream().status();
          served_.cached[served_.cached.size() - requests.size() + i] = event->usage.cached_tokens;
          ++ended;
        }
      }
    }
    EXPECT_GT(served_.answers.size(), first);
  }
  void SkipWave() { ++wave_; }
  ServedAnswers& served() {
    served_.stats = engine_->stats();
    return served_;
  }

 private:
  const engine::testing::FakeTokenText text_;
  const SteadyClock clock_;
  std::mutex mutex_;  // of what workers record
  int wave_ = 0;
  bool alone_in_wave_ = false;
  std::unique_ptr<runner::CpuModelRunner> runner_;
  std::unique_ptr<engine::Engine> engine_;
  engine::EngineSnapshot snapshot_;
  ServedAnswers served_;
};

// Rows that both computed, all with the same bits; -1 if some differ.
int RowsInCommon(const ServedAnswers& a, const ServedAnswers& b) {
  int common = 0;
  for (const auto& [row, hash] : a.rows) {
    const auto other = b.rows.find(row);
    if (other == b.rows.end()) continue;
    if (other->second != hash) return -1;
    ++common;
  }
  return common;
}

engine::Request AskFor(std::vector<TokenId> prompt, int tokens, int i) {
  engine::Request request = engine::testing::TestRequest(
      std::move(prompt), tokens, i % 2 == 1 ? 0.8 : 0.0, static_cast<uint64_t>(i));
  request.n = i == 2 ? 3 : 1;
  request.sampling.ignore_eos = true;
  request.end_tokens = {};
  return request;
}

TEST(DecoderMemory, ShortMemoryChangesNoAnswer) {
  int windowed = 0, recurrent = 0, latent = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadGguf(golden, model::WeightMode::kInt8, tensor::DType::kQ8_0);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const model::ModelConfig& config = (*weights)->config();
    windowed += config.window > 0 ? 1 : 0;
    recurrent += config.recurrent_layers() > 0 ? 1 : 0;
    latent += config.latent_rank > 0 ? 1 : 0;
    if (config.window == 0 && config.recurrent_layers() == 0 && config.latent_rank == 0) continue;
    // Alone, layers with a window keep all tokens.
    MemoryServer alone(*weights, /*ample=*/true), together(*weights, /*ample=*/false);
    std::vector<engine::Request> turn;
    for (int i = 0; i < 6; ++i) {
      std::vector<TokenId> prompt(golden.ids.begin(), golden.ids.begin() + 40 + 6 * i);
      if (i > 3) prompt.front() = prompt.back();  // another beginning
      turn.push_back(AskFor(std::move(prompt), 130 + 10 * i, i));
    }
    alone.Serve(turn);
    together.Serve(turn);
    ASSERT_EQ(alone.served().answers, together.served().answers);
    EXPECT_GT(together.served().stats.preemptions, 0u);
    EXPECT_EQ(together.served().stats.window_blocks_total > 0, config.window > 0);
    // The next turn of one of them.
    std::vector<TokenId> second = turn[0].prompt;
    second.insert(second.end(), alone.served().answers[0].begin(), alone.served().answers[0].end());
    second.insert(second.end(), golden.ids.begin(), golden.ids.begin() + 9);
    const std::vector<engine::Request> first = {turn[0]}, next = {AskFor(second, 30, 0)};
    for (MemoryServer* server : {&alone, &together}) {
      server->Serve(first);
      server->Serve(next);
    }
    EXPECT_EQ(alone.served().answers, together.served().answers);
    // The last token of the answer was drawn, and not computed.
    EXPECT_EQ(together.served().cached.back(), static_cast<int>(second.size()) - 9 - 1);
    // The prompts are 40 to 70 tokens, a part of which is found; the answers 130 to 180.
    EXPECT_GT(RowsInCommon(alone.served(), together.served()), 8 * 130);
    EXPECT_EQ(together.served().changed, 0);
    EXPECT_EQ(alone.served().violation, "");
    EXPECT_EQ(together.served().violation, "");
  }
  EXPECT_GE(windowed, 8);
  EXPECT_GE(recurrent, 8);
  EXPECT_EQ(latent, 4);
}

// Row R25: what a store gives back after a restart has the bits that it was given.
TEST(DecoderMemory, APrefixFromAStoreChangesNoAnswer) {
  int tested = 0;
  for (const FamilyGolden& golden : FamilyGoldens()) {
    SCOPED_TRACE(golden.family);
    const auto weights = LoadGguf(golden, model::WeightMode::kInt8, tensor::DType::kQ8_0);
    ASSERT_TRUE(weights.ok()) << weights.status();
    if ((*weights)->config().context_length < 256 || golden.ids.size() < 70) continue;
    ++tested;
    const engine::Request first =
        AskFor(std::vector<TokenId>(golden.ids.begin(), golden.ids.begin() + 70), 90, 0);
    MemoryServer alone(*weights, /*ample=*/true);
    alone.Serve({first});
    std::unique_ptr<engine::testing::FakePrefixStore> store;
    std::vector<TokenId> second = first.prompt;
    {
      MemoryServer before(*weights, /*ample=*/false, &store);
      before.Serve({first});
      const std::vector<TokenId>& answer = before.served().answers[0];
      ASSERT_EQ(answer, alone.served().answers[0]);
      second.insert(second.end(), answer.begin(), answer.end());
    }
    second.insert(second.end(), golden.ids.begin(), golden.ids.begin() + 9);
    alone.Serve({AskFor(second, 30, 1)});
    MemoryServer after(*weights, /*ample=*/false, &store);
    after.SkipWave();
    after.Serve({AskFor(second, 30, 1)});
    EXPECT_EQ(after.served().answers.back(), alone.served().answers.back());
    // The answer's last token was drawn and not computed; a block that is not full is kept for
    // models with states alone.
    const int known = static_cast<int>(second.size()) - 9 - 1;
    const bool states = (*weights)->config().recurrent_layers() > 0;
    EXPECT_EQ(after.served().cached.back(), states ? known : known / kBlockTokens * kBlockTokens);
    EXPECT_GE(RowsInCommon(alone.served(), after.served()), 30);
    EXPECT_EQ(after.served().violation, "");
  }
  EXPECT_GE(tested, 20);
}

}  // namespace
}  // namespace tutti::parity
