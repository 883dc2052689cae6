// The default model against an outside float32 implementation (tests/golden/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "amount.h"
#include "golden_data.h"
#include "runner/cpu_model_runner.h"
#include "runner/testing/direct_driver.h"

namespace tutti::parity {
namespace {

using kernels::Isa;
using model::KvDtype;
using model::WeightMode;
using runner::DirectDriver;
using support::Amount;

std::unique_ptr<runner::CpuModelRunner> MakeRunner(WeightMode mode, Isa isa,
                                                   KvDtype kv = KvDtype::kByWeights) {
  const auto weights = TestWeights(mode, isa);
  if (weights == nullptr) return nullptr;
  runner::CpuRunnerOptions options;
  options.kernels = &kernels::KernelsFor(isa);
  options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
  options.kv_bytes = size_t{256} << 20;
  options.kv_dtype = kv;
  options.context = 1024;
  auto runner = runner::CpuModelRunner::Create(weights, options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

Isa BestIsa() { return kernels::DetectIsas().back(); }

// The references, cut to as many tokens as this run decodes (all 64 but in sanitized builds).
std::vector<GreedyReference> References() {
  auto references = ReadGreedyReferences();
  EXPECT_EQ(references.size(), 20u);
  for (GreedyReference& reference : references) {
    EXPECT_EQ(reference.tokens.size(), 64u);
    reference.tokens.resize(static_cast<size_t>(Amount(64, 8)));
  }
  return references;
}

// All references' continuations, decoded together: 20 sequences in one batch.
std::vector<std::vector<TokenId>> GreedyTexts(engine::ModelRunner& runner,
                                              const std::vector<GreedyReference>& references,
                                              size_t tokens) {
  DirectDriver driver(runner);
  std::vector<int> sequences;
  std::vector<TokenId> feed;
  for (const GreedyReference& reference : references) {
    sequences.push_back(driver.NewSequence());
    const auto drawn = driver.Prefill(sequences.back(), reference.prompt, 512);
    EXPECT_TRUE(drawn.ok()) << drawn.status();
    feed.push_back(drawn.ok() ? *drawn : 0);
  }
  for (size_t i = 1; i < tokens; ++i) {
    const Status status = driver.Decode(sequences, feed);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<std::vector<TokenId>> texts;
  for (const int sequence : sequences) texts.push_back(driver.output(sequence));
  return texts;
}

struct Score {
  int tokens = 0;
  int same_top = 0;
  double logprob = 0;  // sums
  double reference_logprob = 0;
  double absolute_difference = 0;
  double worst_difference = 0;
  std::vector<bool> same;  // of each place, whether its most probable token is the reference's
  double perplexity() const { return std::exp(-logprob / tokens); }
  double agreement() const { return 100.0 * same_top / tokens; }  // per cent
  double difference() const { return absolute_difference / tokens; }
  double reference_perplexity() const { return std::exp(-reference_logprob / tokens); }
};

// Scores windows of the text, as many at once as a step holds.
Score ScoreText(engine::ModelRunner& runner, const std::vector<ScoredToken>& text, size_t begin,
                size_t end) {
  Score score;
  for (size_t at = begin; at < end; at += kWindow) {
    const std::span<const ScoredToken> window(text.data() + at,
                                              std::min<size_t>(kWindow, end - at));
    DirectDriver driver(runner);
    DirectDriver::Part part{driver.NewSequence(), {}, false, 1};
    for (const ScoredToken& scored : window) part.tokens.push_back(scored.token);
    const auto result = driver.Step({&part, 1});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return score;
    const auto& rows = result->slices[0].prompt_logprobs;
    EXPECT_EQ(rows.size(), window.size() - 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      const ScoredToken& want = window[i + 1];
      EXPECT_EQ(rows[i].chosen.token, want.token);
      const double difference =
          std::fabs(static_cast<double>(rows[i].chosen.logprob) - want.logprob);
      ++score.tokens;
      score.same.push_back(rows[i].top.at(0).token == want.top);
      score.same_top += score.same.back() ? 1 : 0;
      score.logprob += rows[i].chosen.logprob;
      score.reference_logprob += want.logprob;
      score.absolute_difference += difference;
      score.worst_difference = std::max(score.worst_difference, difference);
    }
  }
  return score;
}

TEST(GoldenTest, FloatPathContinuesTwentyPromptsAsTheReference) {
  const auto references = References();
  const auto runner = MakeRunner(WeightMode::kF32, BestIsa());
  ASSERT_NE(runner, nullptr);
  const auto texts = GreedyTexts(*runner, references, references[0].tokens.size());
  for (size_t i = 0; i < references.size(); ++i) {
    EXPECT_EQ(texts[i], references[i].tokens) << "prompt " << i;
  }
}

// After a text has left the reference, the rest of it is another text, so only the first difference
// is judged.
TEST(GoldenTest, Int8PathLeavesTheReferenceOnlyAtNearTies) {
  const auto references = References();
  for (const Isa isa : kernels::DetectIsas()) {
    if (isa == Isa::kScalar)
      continue;  // minutes; it gives the same matrix products to the bit (kernels_test)
    const auto runner = MakeRunner(WeightMode::kInt8, isa);
    ASSERT_NE(runner, nullptr);
    const auto texts = GreedyTexts(*runner, references, references[0].tokens.size());
    int equal = 0, followed = 0;
    for (size_t i = 0; i < references.size(); ++i) {
      const auto& want = references[i].tokens;
      ASSERT_EQ(texts[i].size(), want.size());
      const auto at =
          std::mismatch(want.begin(), want.end(), texts[i].begin()).first - want.begin();
      followed += static_cast<int>(at);
      if (at == std::ssize(want)) {
        ++equal;
      } else {
        EXPECT_LT(references[i].margins[static_cast<size_t>(at)], 0.5f)
            << kernels::IsaName(isa) << ", prompt " << i << ", token " << at;
      }
    }
    std::printf("[ %s ] %d of 20 continuations equal, %d of %d tokens before the first near tie\n",
                kernels::IsaName(isa).data(), equal, followed, Amount(1280, 160));
    EXPECT_GE(followed, Amount(400, 100));
  }
}

TEST(GoldenTest, ScalarFloatPathReproducesLogProbabilities) {
  const auto text = ReadScoredText();
  ASSERT_EQ(text.size(), 10000u);
  const auto runner = MakeRunner(WeightMode::kF32, Isa::kScalar);
  ASSERT_NE(runner, nullptr);
  const int tokens =
      Amount(128, 48, 32);  // minutes for all 512, which the best path has in LongContext
  const Score score = ScoreText(*runner, text, 0, static_cast<size_t>(tokens));
  EXPECT_EQ(score.tokens, tokens - 1);
  EXPECT_LT(score.worst_difference, 1e-3);
  EXPECT_EQ(score.same_top, tokens - 1);
}

// Scores the 10,000 tokens against the reference, with one type of KV cache.
Score ScoreOver(KvDtype kv, const char* name) {
  const auto text = ReadScoredText();
  EXPECT_EQ(text.size(), 10000u);
  const auto runner = MakeRunner(WeightMode::kInt8, BestIsa(), kv);
  if (runner == nullptr) return {};
  const int tokens = Amount(10000, 5000, 2 * kWindow);
  const Score score = ScoreText(*runner, text, 0, static_cast<size_t>(tokens));
  EXPECT_EQ(score.tokens, tokens - (tokens + kWindow - 1) / kWindow);
  std::printf(
      "[ %s, KV in %s ] perplexity %.4f, float32 %.4f (%+.3f %%), top-1 agreement %.2f %%, mean "
      "|delta logprob| %.4f\n",
      kernels::IsaName(BestIsa()).data(), name, score.perplexity(), score.reference_perplexity(),
      100.0 * (score.perplexity() / score.reference_perplexity() - 1.0), score.agreement(),
      score.difference());
  return score;
}

// Default settings, an int8 cache among them: the same most probable token in 96.8 % of places
// (llama.cpp: 97.05 % on this file), a perplexity within 0.4 %, and no more than 0.3 points lost to
// the cache. The two caches differ in one place of 34 and nearly as often to the better, so that
// the loss is known to 0.17 points only: it was 0.00 with AVX-512 and 0.38 with AVX2, which differ
// in roundings alone. The test fails where it is above 0.3 points by more than two standard errors.
TEST(GoldenTest, DefaultsAgreeWithFloatAsWellAsAFloatCache) {
  const Score score = ScoreOver(KvDtype::kByWeights, "int8, the default");
  const Score floats = ScoreOver(KvDtype::kF32, "float32");
  ASSERT_GT(score.tokens, 0);
  // A mean of few tokens scatters more.
  EXPECT_NEAR(score.perplexity() / score.reference_perplexity(), 1.0, 0.001 * Amount(4, 6, 20));
  EXPECT_GE(score.agreement(), 0.1 * Amount(968, 960, 940));
  ASSERT_EQ(score.same.size(), floats.same.size());
  int lost = 0, won = 0;
  for (size_t i = 0; i < score.same.size(); ++i) {
    lost += floats.same[i] && !score.same[i] ? 1 : 0;
    won += score.same[i] && !floats.same[i] ? 1 : 0;
  }
  const double loss = 100.0 * (lost - won) / score.tokens;
  const double error = 100.0 * std::sqrt(lost + won) / score.tokens;  // of a sum of +1 and -1
  std::printf("[ the int8 cache loses %d places and wins %d: %.2f points, standard error %.2f ]\n",
              lost, won, loss, error);
  EXPECT_LE(loss, 0.3 + 2 * error);
  EXPECT_LT(score.difference(), 0.05);
}

}  // namespace
}  // namespace tutti::parity
