// A text as long as the default model's context, 8,192 tokens, against an outside float32
// implementation (tests/golden/README.md): positions, windows of attention and a cache of hundreds
// of blocks far beyond what the other references reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "amount.h"
#include "golden_data.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace tutti::parity {
namespace {

using model::KvDtype;
using model::WeightMode;
using runner::DirectDriver;

constexpr int kContext = 8192;
constexpr int kChunk = 512;  // prompt tokens of a step

struct LongScore {
  int tokens = 0, compared = 0, same_top = 0;
  double logprob = 0;  // sums
  double absolute_difference = 0, worst_difference = 0;
};

// The text's first tokens in pieces, as a prompt is read.
LongScore ScoreAsOneText(WeightMode mode, KvDtype kv, int tokens) {
  LongScore score;
  const auto text = ReadScoredText();
  const LongReference reference = ReadLongReference();
  EXPECT_EQ(reference.scored.size(), static_cast<size_t>(kContext / 8 - 1));
  const auto weights = TestWeights(mode, kernels::DetectIsas().back());
  if (weights == nullptr) return score;
  runner::CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
  options.kv_bytes = size_t{768} << 20;
  options.kv_dtype = kv;
  options.context = kContext;
  auto runner = runner::CpuModelRunner::Create(weights, options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return score;
  DirectDriver driver(**runner, /*block_seed=*/7);
  const int sequence = driver.NewSequence();
  auto wanted = reference.scored.begin();
  for (int begin = 0; begin < tokens; begin += kChunk) {
    DirectDriver::Part part{sequence, {}, false, 1};
    for (int i = begin; i < begin + kChunk; ++i)
      part.tokens.push_back(text[static_cast<size_t>(i)].token);
    if (begin + kChunk < tokens) part.next_token = text[static_cast<size_t>(begin + kChunk)].token;
    const auto result = driver.Step({&part, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return score;
    const auto& rows = result->slices[0].prompt_logprobs;
    for (size_t i = 0; i < rows.size(); ++i) {
      const double logprob = rows[i].chosen.logprob;
      ++score.tokens;
      score.logprob += logprob;
      if (wanted == reference.scored.end() || wanted->position != begin + static_cast<int>(i) + 1)
        continue;
      const double difference = std::fabs(logprob - wanted->logprob);
      ++score.compared;
      score.same_top += rows[i].top.at(0).token == wanted->top ? 1 : 0;
      score.absolute_difference += difference;
      score.worst_difference = std::max(score.worst_difference, difference);
      ++wanted;
    }
  }
  EXPECT_EQ(score.tokens, tokens - 1);
  EXPECT_EQ(score.compared, tokens / 8 - 1);
  return score;
}

TEST(LongContext, FloatPathReproducesATextOfTheWholeContext) {
  const int tokens = support::Amount(kContext, kContext / 4, kChunk);
  const LongScore score = ScoreAsOneText(WeightMode::kF32, KvDtype::kByWeights, tokens);
  ASSERT_GT(score.compared, 0);
  std::printf("[ f32 ] worst |delta logprob| %.6f, most probable token %d of %d\n",
              score.worst_difference, score.same_top, score.compared);
  EXPECT_LT(score.worst_difference, 1e-3);
  EXPECT_EQ(score.same_top, score.compared);
  if (tokens == kContext) {
    EXPECT_NEAR(std::exp(-score.logprob / score.tokens) / ReadLongReference().perplexity, 1, 1e-5);
  }
}

// The served configuration: int8 products over an int8 cache.
TEST(LongContext, ServedPathStaysWithinOnePercentOfFloatOverTheWholeContext) {
  const int tokens = support::Amount(kContext, kContext / 2, kChunk);
  const LongScore score = ScoreAsOneText(WeightMode::kInt8, KvDtype::kInt8, tokens);
  ASSERT_GT(score.compared, 0);
  const double perplexity = std::exp(-score.logprob / score.tokens);
  const double agreement = 100.0 * score.same_top / score.compared;
  std::printf(
      "[ int8, KV in int8 ] perplexity %.4f, float32 %.4f of all; top-1 agreement %.2f %%, mean "
      "|delta| %.4f\n",
      perplexity, ReadLongReference().perplexity, agreement,
      score.absolute_difference / score.compared);
  EXPECT_GT(agreement, support::Amount(95, 85));
  EXPECT_LT(score.absolute_difference / score.compared, 0.08);
  if (tokens == kContext) {
    EXPECT_NEAR(perplexity / ReadLongReference().perplexity, 1, 0.01);
  }
}

}  // namespace
}  // namespace tutti::parity
