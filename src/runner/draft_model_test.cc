// Row U75, a second model in front of a real one: an engine over two runners on the same threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/testing/engine_harness.h"
#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "runner/cpu_model_runner.h"

namespace tutti::runner {
namespace {

std::shared_ptr<const model::Weights> Generated(uint64_t seed, uint32_t layers) {
  gguf::testing::CheckpointSpec spec;
  spec.seed = seed;
  spec.layers = layers;
  spec.width = 128;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_width = 32;
  spec.feed_forward = 192;
  spec.context = 512;
  spec.type = tensor::DType::kQ4_1;
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  CHECK(file.ok()) << file.status();
  return *model::Weights::Load(**file, {});
}

// A runner whose steps report almost no time, so that drafting always pays.
class Priceless final : public engine::ModelRunner {
 public:
  explicit Priceless(std::unique_ptr<CpuModelRunner> runner) : runner_(std::move(runner)) {}
  engine::RunnerLimits limits() const override {
    engine::RunnerLimits limits = runner_->limits();
    limits.weight_bytes = 1;
    return limits;
  }
  void Launch(const engine::StepPlan& plan) override {
    ++steps;
    runner_->Launch(plan);
  }
  engine::StepResult Collect() override {
    engine::StepResult result = runner_->Collect();
    result.forward = Duration(1);
    return result;
  }
  void Recycle(engine::StepResult used) override { runner_->Recycle(std::move(used)); }
  int steps = 0;

 private:
  const std::unique_ptr<CpuModelRunner> runner_;
};

struct Answers {
  int passes = 0;  // of the draft
  std::vector<std::vector<TokenId>> tokens;
  engine::EngineStats stats;
};

CpuRunnerOptions Options() {
  CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = 2});
  options.kv_bytes = size_t{8} << 20;
  options.context = 512;
  return options;
}

// The answers to 12 requests, four at once; some sampled, one with two choices.
Answers Ask(const std::shared_ptr<const model::Weights>& weights,
            const std::shared_ptr<const model::Weights>& drafts) {
  CpuRunnerOptions options = Options();
  const auto runner = *CpuModelRunner::Create(weights, options);
  std::unique_ptr<Priceless> draft;
  if (drafts != nullptr) {
    options.max_step_tokens = 160;
    options.max_step_slices = engine::kMaxDraftSequences;
    draft = std::make_unique<Priceless>(*CpuModelRunner::Create(drafts, options));
  }
  const engine::testing::FakeTokenText text;
  const SteadyClock clock;
  engine::EngineOptions engine_options;
  engine_options.scheduler.max_num_seqs = 4;
  engine::Engine engine(
      engine_options,
      engine::EngineDependencies{
          .runner = runner.get(), .text = &text, .clock = &clock, .draft = draft.get()});
  std::vector<api::Generation> generations;
  for (int i = 0; i < 12; ++i) {
    engine::Request request =
        engine::testing::TestRequest(engine::testing::TestPrompt(i % 5, 3 + 17 * i), 120,
                                     i % 3 == 1 ? 0.8 : 0.0, static_cast<uint64_t>(i));
    request.n = i == 7 ? 2 : 1;
    request.sampling.ignore_eos = true;
    generations.push_back(*engine.Submit(std::move(request), nullptr));
  }
  Answers answers;
  answers.tokens.resize(2 * generations.size());
  for (size_t ended = 0; ended < generations.size();) {
    (void)engine.RunOneStep();
    for (size_t i = 0; i < generations.size(); ++i) {
      while (const api::StreamEvent* event = generations[i].Next()) {
        generations[i].Consumed(event->text.size());
        if (event->kind == api::StreamEvent::Kind::kToken)
          answers.tokens[2 * i + static_cast<size_t>(event->choice)].push_back(event->token);
        if (event->kind != api::StreamEvent::Kind::kEnd) continue;
        EXPECT_TRUE(generations[i].stream().status().ok());
        ++ended;
      }
    }
  }
  answers.stats = engine.stats();
  if (draft != nullptr) answers.passes = draft->steps;
  return answers;
}

// How much of a greedy answer a drafter over such weights says before it is drawn, seven tokens at
// a time.
double ShareThatComesTrue(const std::shared_ptr<const model::Weights>& drafts,
                          const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
  const auto runner = *CpuModelRunner::Create(drafts, Options());
  engine::Drafter drafter(runner.get());
  engine::Sequence sequence;
  sequence.tokens = prompt;
  sequence.draft.on = true;
  int proposed = 0, right = 0;
  for (size_t at = 0; at + engine::kMaxDrafts < answer.size();) {
    sequence.draft.Settle(sequence.tokens);
    engine::DraftRequest ask{.sequence = &sequence, .wanted = engine::kMaxDrafts};
    drafter.Run({&ask, 1});
    EXPECT_EQ(ask.count, engine::kMaxDrafts);
    size_t hits = 0;
    while (hits < static_cast<size_t>(ask.count) && ask.tokens[hits] == answer[at + hits]) ++hits;
    proposed += ask.count;
    right += static_cast<int>(hits);
    const auto first = answer.begin() + static_cast<std::ptrdiff_t>(at);
    sequence.tokens.insert(sequence.tokens.end(), first,
                           first + static_cast<std::ptrdiff_t>(hits) + 1);
    at += hits + 1;
  }
  drafter.Release(sequence);
  EXPECT_EQ(drafter.free_blocks(), runner->limits().kv_blocks);
  return static_cast<double>(right) / proposed;
}

TEST(DraftModelTest, AllThatItsOwnWeightsProposeComesTrueAndOfOthersLittle) {
  const auto weights = Generated(1, 4);
  const Answers plain = Ask(weights, nullptr);
  for (const int i : {0, 3, 6}) {  // greedy
    const auto prompt = engine::testing::TestPrompt(i % 5, 3 + 17 * i);
    const std::vector<TokenId>& answer = plain.tokens[2 * static_cast<size_t>(i)];
    EXPECT_EQ(ShareThatComesTrue(Generated(1, 4), prompt, answer), 1);
    EXPECT_LT(ShareThatComesTrue(Generated(2, 1), prompt, answer), 0.5);
  }
}

TEST(DraftModelTest, WithItsOwnWeightsAndWithOthersAllAnswersAreTheSame) {
  const auto weights = Generated(1, 4);
  const Answers plain = Ask(weights, nullptr);
  const Answers same = Ask(weights, Generated(1, 4));
  const Answers other = Ask(weights, Generated(2, 1));
  EXPECT_EQ(plain.tokens, same.tokens);
  EXPECT_EQ(plain.tokens, other.tokens);
  // Twelve requests, one of them with two choices.
  const auto whole = [](const std::vector<TokenId>& tokens) { return tokens.size() == 120; };
  EXPECT_EQ(std::count_if(plain.tokens.begin(), plain.tokens.end(), whole), 13);
  // How often it is asked depends on what rows cost on this machine.
  EXPECT_GT(same.passes, 0);
  EXPECT_GT(same.stats.accepted_tokens, 0u);
}

}  // namespace
}  // namespace tutti::runner
