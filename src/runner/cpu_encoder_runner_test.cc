#include "runner/cpu_encoder_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/isa.h"
#include "model/testing/generated_encoder.h"
#include "runner/testing/compare_rows.h"
#include "runner/testing/encode_texts.h"

namespace tutti::runner {
namespace {

using api::EncodeOutput;
using model::EncoderDType;
using model::testing::GeneratedText;

constexpr TokenId kPoisoned = 9;

std::unique_ptr<CpuEncoderRunner> MakeRunner(const model::testing::GeneratedEncoderSpec& spec,
                                             int workers, EncoderDType dtype = EncoderDType::kF32,
                                             int max_tokens = 1024) {
  CpuEncoderOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = workers});
  options.max_tokens = max_tokens;
  auto runner = CpuEncoderRunner::Create(
      model::testing::LoadGenerated(model::testing::GenerateEncoder(spec), dtype), options);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return *std::move(runner);
}

TextToEncode Wanted(const GeneratedText& text, EncodeOutput output) {
  return {text.tokens, output, text.types};
}

std::vector<float> Alone(CpuEncoderRunner& runner, const TextToEncode& text) {
  EncodedTexts outcome = EncodeMixedTexts(runner, {text});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  return std::move(outcome.values[0]);
}

TEST(CpuEncoderRunner, TellsWhatItsModelGives) {
  const auto vectors = MakeRunner({}, 1)->limits();
  EXPECT_EQ(vectors.width, 64);
  EXPECT_EQ(vectors.labels, 0);
  EXPECT_EQ(vectors.types, 2);
  EXPECT_EQ(vectors.vocab_size, 50);
  EXPECT_EQ(vectors.max_item_tokens, 80);
  EXPECT_EQ(vectors.max_tokens, 1024);
  const auto scores =
      MakeRunner({.architecture = "roberta", .labels = 3}, 1, EncoderDType::kF32, 10)->limits();
  EXPECT_EQ(scores.width, 0);
  EXPECT_EQ(scores.labels, 3);
  EXPECT_EQ(scores.max_item_tokens, 78);
  EXPECT_EQ(scores.max_tokens, 78) << "one item must fit";
}

TEST(CpuEncoderRunner, APooledRowIsMadeOfTheTokensRowsAsTheModelPools) {
  for (const model::Pooling pooling :
       {model::Pooling::kMean, model::Pooling::kCls, model::Pooling::kLast, model::Pooling::kMax}) {
    const auto runner = MakeRunner({.pooling = pooling}, 2);
    for (const GeneratedText& text :
         model::testing::GenerateTexts(model::testing::GenerateEncoder().config, 5)) {
      const EncodedTexts outcome = EncodeMixedTexts(
          *runner, {Wanted(text, EncodeOutput::kTokens), Wanted(text, EncodeOutput::kPooled)});
      ASSERT_TRUE(outcome.status.ok());
      std::vector<float> pooled(64);
      model::PoolRows(outcome.values[0].data(), static_cast<int>(text.tokens.size()), 64, pooling,
                      pooled.data());
      EXPECT_TRUE(SameBits(outcome.values[1], pooled)) << model::PoolingName(pooling);
    }
  }
}

TEST(CpuEncoderRunner, WithoutKindsOfTokensAllAreTheFirst) {
  const auto runner = MakeRunner({}, 2);
  GeneratedText text =
      model::testing::GenerateTexts(model::testing::GenerateEncoder().config, 1)[0];
  const auto typed = Alone(*runner, Wanted(text, EncodeOutput::kPooled));
  const auto untyped = Alone(*runner, {text.tokens});
  EXPECT_FALSE(SameBits(typed, untyped));
  std::fill(text.types.begin(), text.types.end(), 0);
  EXPECT_TRUE(SameBits(Alone(*runner, Wanted(text, EncodeOutput::kPooled)), untyped));
}

// Vectors, rows of tokens and scores, each alone and in batches of any others, with one to three
// workers and in every type.
TEST(CpuEncoderRunner, AnItemGivesTheSameBitsAloneAndInAnyBatchWithAnyWorkers) {
  for (const int labels : {0, 3}) {
    const std::vector<EncodeOutput> outputs =
        labels > 0 ? std::vector<EncodeOutput>{EncodeOutput::kScores}
                   : std::vector<EncodeOutput>{EncodeOutput::kPooled, EncodeOutput::kTokens};
    const model::testing::GeneratedEncoderSpec spec = {.labels = labels};
    const auto texts =
        model::testing::GenerateTexts(model::testing::GenerateEncoder(spec).config, 12);
    for (const EncoderDType dtype : {EncoderDType::kF32, EncoderDType::kBf16, EncoderDType::kInt8,
                                     EncoderDType::kInt8Blocks}) {
      const auto single = MakeRunner(spec, 1, dtype);
      std::vector<TextToEncode> all;
      std::vector<std::vector<float>> alone;
      for (const GeneratedText& text : texts) {
        for (const EncodeOutput output : outputs) {
          all.push_back(Wanted(text, output));
          alone.push_back(Alone(*single, all.back()));
        }
      }
      Random random(5);
      for (int workers = 1; workers <= 3; ++workers) {
        const auto runner = MakeRunner(spec, workers, dtype);
        for (int trial = 0; trial < 20; ++trial) {
          std::vector<size_t> chosen(1 + random.Below(12));
          std::vector<TextToEncode> batch;
          for (size_t& index : chosen) {
            index = random.Below(all.size());
            batch.push_back(all[index]);
          }
          const EncodedTexts outcome = EncodeMixedTexts(*runner, batch);
          ASSERT_TRUE(outcome.status.ok()) << outcome.status;
          for (size_t i = 0; i < chosen.size(); ++i)
            ASSERT_TRUE(SameBits(outcome.values[i], alone[chosen[i]]))
                << workers << " workers, trial " << trial << ", item " << i;
        }
      }
    }
  }
}

TEST(CpuEncoderRunner, ATextWhoseValuesAreNotFiniteLeavesItsNeighboursWhole) {
  for (const int labels : {0, 1}) {
    const model::testing::GeneratedEncoderSpec spec = {.labels = labels, .poisoned = kPoisoned};
    const auto texts =
        model::testing::GenerateTexts(model::testing::GenerateEncoder(spec).config, 3, kPoisoned);
    GeneratedText poisoned = texts[1];
    poisoned.tokens[0] = kPoisoned;
    const auto outputs =
        labels > 0 ? std::vector<EncodeOutput>{EncodeOutput::kScores}
                   : std::vector<EncodeOutput>{EncodeOutput::kPooled, EncodeOutput::kTokens};
    for (const EncodeOutput output : outputs) {
      const auto runner = MakeRunner(spec, 2);
      const std::vector<TextToEncode> good = {Wanted(texts[0], output), Wanted(texts[2], output)};
      const EncodedTexts before = EncodeMixedTexts(*runner, good);
      EXPECT_TRUE(before.status.ok()) << before.status;
      const EncodedTexts mixed =
          EncodeMixedTexts(*runner, {good[0], Wanted(poisoned, output), good[1]});
      EXPECT_TRUE(mixed.status.ok()) << "its neighbours need no second pass: " << mixed.status;
      EXPECT_FALSE(AllFinite(mixed.values[1]));
      EXPECT_TRUE(SameBits(mixed.values[0], before.values[0]));
      EXPECT_TRUE(SameBits(mixed.values[2], before.values[1]));
      const EncodedTexts after = EncodeMixedTexts(*runner, good);
      EXPECT_TRUE(after.status.ok()) << after.status;
      EXPECT_TRUE(SameBits(before.values[0], after.values[0]));
    }
  }
}

}  // namespace
}  // namespace tutti::runner
