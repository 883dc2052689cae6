// Batch invariance: a sequence's logits are the same bytes for any other load, any split of its
// prompt and any number of threads, with its prefix computed or reused, and after preemption.
// Compared with memcmp, never with a tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "amount.h"
#include "base/random.h"
#include "golden_data.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"
#include "sampled.h"
#include "tiny_model.h"

namespace tutti::parity {
namespace {

using kernels::Isa;
using runner::DirectDriver;
using support::Amount;

constexpr int kNewTokens = 4;

struct Scenario {
  std::string name;
  int threads = 2;
  int batch = 1;    // sequences in flight at once
  int chunk = 512;  // most prompt tokens of one sequence in a step
  uint64_t block_seed = 0;
  bool share_prefixes = true;
  bool reuse_prefix = false;  // every sequence starts from blocks computed for another one
  bool preempt =
      false;  // every sequence loses its cache after its second token and is computed again
};

using Prompts = std::vector<std::vector<TokenId>>;
// Logits by (prompt, position): all rows that were sampled from.
using Rows = std::map<std::pair<size_t, int>, std::vector<float>>;

// A small continuous batcher: decode rows first, then prompt chunks while the step has room.
class Batcher {
 public:
  Batcher(std::shared_ptr<const model::Weights> weights, Isa isa, model::KvDtype kv,
          const Scenario& scenario)
      : scenario_(scenario) {
    runner::CpuRunnerOptions options;
    options.kernels = &kernels::KernelsFor(isa);
    options.pool = std::make_shared<runner::ComputePool>(
        runner::ComputePoolOptions{.workers = scenario.threads});
    options.kv_bytes = runner::CpuModelRunner::KvBlockBytes(*weights, *options.kernels) * 512;
    options.kv_dtype = kv;
    options.context = 512;
    options.share_prefixes = scenario.share_prefixes;
    options.logits_tap = [this](uint32_t sequence, int position, std::span<const float> logits) {
      const std::lock_guard lock(mutex_);
      rows_[{prompt_of_.at(sequence), position}].assign(logits.begin(), logits.end());
    };
    auto made = runner::CpuModelRunner::Create(std::move(weights), options);
    EXPECT_TRUE(made.ok()) << made.status();
    runner_ = std::move(made).value();
    driver_ = std::make_unique<DirectDriver>(*runner_, scenario.block_seed);
  }

  Rows Run(const Prompts& prompts) {
    size_t next = 0;
    while (next < prompts.size() || !running_.empty()) {
      while (next < prompts.size() && std::ssize(running_) < scenario_.batch)
        Admit(prompts, next++);
      Step();
    }
    return std::move(rows_);
  }

 private:
  struct RunningPrompt {
    int sequence;
    std::vector<TokenId> tokens;  // prompt and output
    int drawn = 0;
    bool preempted = false;
  };

  void Admit(const Prompts& prompts, size_t index) {
    RunningPrompt running;
    running.tokens = prompts[index];
    const int keep =
        static_cast<int>(running.tokens.size()) - 1;  // the last token is always computed
    if (scenario_.reuse_prefix && keep > 0) {
      const int donor = driver_->NewSequence();
      prompt_of_[static_cast<uint32_t>(donor)] =
          prompts.size() + index;  // its rows are not compared
      EXPECT_TRUE(driver_->Prefill(donor, running.tokens, scenario_.chunk).ok());
      running.sequence = driver_->Fork(donor, keep);
    } else {
      running.sequence = driver_->NewSequence();
    }
    prompt_of_[static_cast<uint32_t>(running.sequence)] = index;
    running_.push_back(std::move(running));
  }

  void Step() {
    std::vector<DirectDriver::Part> parts;
    std::vector<size_t> of;
    int room = runner_->limits().max_step_tokens;
    for (const bool decode : {true, false}) {
      for (size_t i = 0; i < running_.size() && room > 0; ++i) {
        const RunningPrompt& running = running_[i];
        const int done = driver_->length(running.sequence);
        const int left = static_cast<int>(running.tokens.size()) - done;
        if ((left == 1) != decode) continue;
        const int count = std::min({left, scenario_.chunk, room});
        room -= count;
        parts.push_back({running.sequence,
                         {running.tokens.begin() + done, running.tokens.begin() + done + count},
                         count == left});
        of.push_back(i);
      }
    }
    const auto result = driver_->Step(parts);
    ASSERT_TRUE(result.ok()) << result.status();
    std::vector<RunningPrompt> staying;
    for (size_t p = 0; p < parts.size(); ++p) {
      RunningPrompt& running = running_[of[p]];
      ASSERT_TRUE(result->slices[p].status.ok()) << result->slices[p].status;
      if (!parts[p].sample) continue;
      running.tokens.push_back(result->slices[p].token);
      ++running.drawn;
      if (scenario_.preempt && running.drawn == 2 && !running.preempted) {
        driver_->Evict(running.sequence);
        running.preempted = true;
      }
    }
    for (RunningPrompt& running : running_) {
      if (running.drawn < kNewTokens) {
        staying.push_back(std::move(running));
      } else {
        driver_->Evict(running.sequence);
      }
    }
    running_ = std::move(staying);
  }

  const Scenario scenario_;
  std::unique_ptr<runner::CpuModelRunner> runner_;
  std::unique_ptr<DirectDriver> driver_;
  std::vector<RunningPrompt> running_;
  std::mutex mutex_;
  std::map<uint32_t, size_t> prompt_of_;
  Rows rows_;
};

int CountDifferences(const Rows& want, const Rows& got, size_t prompts) {
  int different = 0;
  for (const auto& [key, row] : want) {
    if (key.first >= prompts) continue;
    const auto it = got.find(key);
    if (it == got.end() || it->second.size() != row.size() ||
        std::memcmp(it->second.data(), row.data(), row.size() * sizeof(float)) != 0) {
      ++different;
    }
  }
  return different;
}

std::vector<Scenario> Scenarios() {
  return {
      {.name = "two threads"},
      {.name = "three threads", .threads = 3, .batch = 4},
      {.name = "chunks of 1, batch 32", .batch = 32, .chunk = 1},
      {.name = "chunks of 32, batch 7, shuffled blocks", .batch = 7, .chunk = 32, .block_seed = 5},
      {.name = "chunks of 128, batch 16, one thread", .threads = 1, .batch = 16, .chunk = 128},
      {.name = "whole prompts, batch 32", .batch = 32},
      {.name = "batch 2, chunks of 31, prefixes read apart",
       .batch = 2,
       .chunk = 31,
       .share_prefixes = false},
      {.name = "prefix reused, batch 5", .batch = 5, .chunk = 128, .reuse_prefix = true},
      {.name = "preempted and computed again, batch 8",
       .batch = 8,
       .chunk = 64,
       .block_seed = 9,
       .preempt = true},
  };
}

void ExpectInvariant(const std::shared_ptr<const model::Weights>& weights, Isa isa,
                     const Prompts& prompts, model::KvDtype kv = model::KvDtype::kByWeights,
                     const std::vector<Scenario>& scenarios = Scenarios()) {
  ASSERT_NE(weights, nullptr);
  const Rows alone = Batcher(weights, isa, kv, {.name = "alone", .threads = 1}).Run(prompts);
  ASSERT_EQ(alone.size(), prompts.size() * kNewTokens);
  for (const Scenario& scenario : scenarios) {
    const Rows rows = Batcher(weights, isa, kv, scenario).Run(prompts);
    EXPECT_EQ(CountDifferences(alone, rows, prompts.size()), 0)
        << "of " << alone.size() << " rows, " << kernels::IsaName(isa) << ", " << scenario.name;
  }
}

// Prompts of every length class around the block and chunk borders.
Prompts RandomPrompts(int count, int longest, int vocab_size, uint64_t seed) {
  Random random(seed);
  Prompts prompts;
  for (int i = 0; i < count; ++i) {
    const int64_t length = i % 3 == 0 ? random.Between(1, 8) : random.Between(9, longest);
    prompts.emplace_back();
    for (int64_t t = 0; t < length; ++t) {
      prompts.back().push_back(
          static_cast<TokenId>(random.Below(static_cast<uint64_t>(vocab_size))));
    }
  }
  // Two pairs with a common beginning: the shared-prefix reading of blocks.
  prompts[1] = prompts[2];
  prompts[1].push_back(3);
  return prompts;
}

TEST(InvarianceTest, PromptsOfTheDefaultModelGiveTheSameBytes) {
  Prompts prompts;
  for (const GreedyReference& reference : ReadGreedyReferences())
    prompts.push_back(reference.prompt);
  const auto text = ReadScoredText();
  ASSERT_EQ(prompts.size(), 20u);
  ASSERT_EQ(text.size(), 10000u);
  Random random(4);
  const auto count = static_cast<size_t>(Amount(50, 20, 8));
  prompts.resize(std::min<size_t>(prompts.size(), count - 2));
  while (prompts.size() < count) {
    const int64_t begin = random.Between(0, 9000), length = random.Between(1, 140);
    prompts.emplace_back();
    for (int64_t i = 0; i < length; ++i)
      prompts.back().push_back(text[static_cast<size_t>(begin + i)].token);
  }
  prompts[count - 1] = prompts[count - 2];  // a shared prefix of many blocks
  prompts[count - 1].push_back(42);
  const Isa best = kernels::DetectIsas().back();
  ExpectInvariant(TestWeights(model::WeightMode::kInt8, best), best, prompts);
}

class InvarianceOnEveryIsa : public testing::TestWithParam<Isa> {};

TEST_P(InvarianceOnEveryIsa, GeneratedModelsGiveTheSameBytes) {
  for (const auto mode : {model::WeightMode::kInt8, model::WeightMode::kF32}) {
    gguf::testing::CheckpointSpec spec;
    spec.width = 128;
    spec.heads = 6;
    spec.kv_heads = 2;
    spec.head_width = 32;
    spec.feed_forward = 192;
    spec.context = 512;
    spec.type = tensor::DType::kQ4_1;
    spec.embedding_type = tensor::DType::kQ8_0;
    const TinyModel model = MakeTinyModel(spec, mode);
    const int prompts =
        GetParam() == Isa::kScalar ? 8 : Amount(24, 8);  // the oracle takes its time
    ExpectInvariant(model.weights, GetParam(),
                    RandomPrompts(prompts, 120, model.reference.vocab_size, 11));
    ExpectInvariant(model.weights, GetParam(),
                    RandomPrompts(GetParam() == Isa::kScalar ? 4 : Amount(12, 4), 120,
                                  model.reference.vocab_size, 12),
                    model::KvDtype::kInt8);
  }
}

// Two ways of cutting the same work: enough to turn another tile, chunk or order into other bits.
std::vector<Scenario> TwoScenarios() {
  return {
      {.name = "chunks of 32, batch 7, shuffled blocks", .batch = 7, .chunk = 32, .block_seed = 5},
      {.name = "preempted and computed again, batch 3", .batch = 3, .chunk = 9, .preempt = true}};
}

constexpr model::KvDtype kCaches[] = {model::KvDtype::kInt8, model::KvDtype::k16Bit,
                                      model::KvDtype::kF32};

// A model of one layer in `type`, computed in `mode`, over each of `caches`.
void ExpectFormatInvariant(Isa isa, tensor::DType type, model::WeightMode mode, bool in_bf16,
                           std::span<const model::KvDtype> caches) {
  gguf::testing::CheckpointSpec spec;
  spec.layers = 1;
  spec.context = 512;
  spec.type = type;
  const TinyModel model = MakeTinyModel(spec, mode, in_bf16);
  SCOPED_TRACE(std::string(tensor::Name(type)) + " in mode " +
               std::to_string(static_cast<int>(mode)) + (in_bf16 ? " in bfloat16" : ""));
  const Prompts prompts =
      RandomPrompts(isa == Isa::kScalar ? 4 : 8, 70, model.reference.vocab_size, 13);
  for (const model::KvDtype kv : caches)
    ExpectInvariant(model.weights, isa, prompts, kv, TwoScenarios());
}

// Every type that is computed as it is, and two that a load turns into another, over every type of
// cache. The oracle, which takes its time, meets one cache each, in turn.
TEST_P(InvarianceOnEveryIsa, EveryFormatGivesTheSameBytes) {
  const Isa isa = GetParam();
  const kernels::GemmKernels& gemm = kernels::KernelsFor(isa).gemm;
  std::vector<tensor::DType> types(std::begin(tensor::kReadableTypes),
                                   std::end(tensor::kReadableTypes));
  // The last two are computed as Q8_0 and Q4_0.
  types.insert(types.end(), {tensor::DType::kMXFP4, tensor::DType::kIQ4_NL, tensor::DType::kTQ2_0});
  size_t next = 0;
  for (const tensor::DType type : CasesOn(isa, types)) {
    const bool sixteen = type == tensor::DType::kF16 || type == tensor::DType::kBF16;
    const bool has_bf16 = sixteen ? gemm.bf16_pairs : tensor::IsQuantized(type) && gemm.bf16_tiles;
    for (const bool in_bf16 : {false, true}) {
      if (in_bf16 && !has_bf16) continue;
      std::span<const model::KvDtype> caches = kCaches;
      if (isa == Isa::kScalar) caches = caches.subspan(next++ % caches.size(), 1);
      ExpectFormatInvariant(isa, type, model::WeightMode::kInt8, in_bf16, caches);
    }
  }
}

// The same for quantised weights in each arithmetic that --dtype selects.
TEST_P(InvarianceOnEveryIsa, EveryArithmeticGivesTheSameBytes) {
  const Isa isa = GetParam();
  const bool has_pairs = kernels::KernelsFor(isa).gemm.bf16_pairs;
  std::span<const model::KvDtype> caches = kCaches;
  if (isa == Isa::kScalar) caches = caches.first(1);
  for (const auto mode :
       {model::WeightMode::kF32, model::WeightMode::kF16, model::WeightMode::kBf16}) {
    ExpectFormatInvariant(isa, tensor::DType::kQ4_1, mode, false, caches);
    if (has_pairs && mode == model::WeightMode::kBf16)
      ExpectFormatInvariant(isa, tensor::DType::kQ4_1, mode, true, caches);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, InvarianceOnEveryIsa, testing::ValuesIn(kernels::DetectIsas()),
                         [](const auto& isa) { return std::string(kernels::IsaName(isa.param)); });

}  // namespace
}  // namespace tutti::parity
