#include "runner/cpu_decoder_embedder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "model/encoder.h"
#include "runner/testing/compare_rows.h"
#include "runner/testing/encode_texts.h"

namespace tutti::runner {
namespace {

using api::EncodeOutput;
using model::Pooling;
using Texts = std::vector<std::vector<TokenId>>;

constexpr int kWidth = 64;

gguf::testing::CheckpointSpec Spec(tensor::DType type = tensor::DType::kF32) {
  gguf::testing::CheckpointSpec spec;
  spec.layers = 2;
  spec.width = kWidth;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_width = 32;
  spec.feed_forward = 96;
  spec.context = 256;
  spec.type = type;
  return spec;
}

std::shared_ptr<const model::Weights> Load(model::WeightMode mode,
                                           tensor::DType type = tensor::DType::kF32) {
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(Spec(type)).Build()));
  CHECK(file.ok()) << file.status();
  model::LoadOptions options;
  options.mode = mode;
  auto weights = model::Weights::Load(**file, options);
  CHECK(weights.ok()) << weights.status();
  return *std::move(weights);
}

struct Setting {
  int workers = 1;
  int step = 512;  // rows
  Pooling pooling = Pooling::kLast;
};

std::unique_ptr<CpuDecoderEmbedder> Make(std::shared_ptr<const model::Weights> weights,
                                         const Setting& setting) {
  DecoderEmbedderOptions options;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.pool = std::make_shared<ComputePool>(ComputePoolOptions{.workers = setting.workers});
  options.max_items = 8;
  options.max_tokens = 600;
  options.max_step_tokens = setting.step;
  options.pooling = setting.pooling;
  auto made = CpuDecoderEmbedder::Create(std::move(weights), options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

Texts MakeTexts(int count) {
  Random random(3);
  Texts texts(static_cast<size_t>(count));
  for (auto& text : texts) {
    for (uint64_t n = 1 + random.Below(130); n > 0; --n) {
      text.push_back(static_cast<TokenId>(random.Below(250)));
    }
  }
  return texts;
}

TEST(CpuDecoderEmbedder, TellsWhatItsModelGives) {
  const auto limits = Make(Load(model::WeightMode::kF32), {})->limits();
  EXPECT_EQ(limits.width, kWidth);
  EXPECT_EQ(limits.labels, 0);
  EXPECT_EQ(limits.types, 1);
  EXPECT_EQ(limits.max_item_tokens, 256);
  EXPECT_EQ(limits.max_tokens, 600);
}

TEST(CpuDecoderEmbedder, APooledVectorIsMadeOfTheTokensRows) {
  const auto weights = Load(model::WeightMode::kF32);
  const Texts texts = MakeTexts(4);
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kCls, Pooling::kMax}) {
    const auto embedder = Make(weights, {.workers = 2, .step = 100, .pooling = pooling});
    const EncodedTexts rows = EncodeTexts(*embedder, texts, EncodeOutput::kTokens);
    const EncodedTexts pooled = EncodeTexts(*embedder, texts);
    ASSERT_TRUE(rows.status.ok() && pooled.status.ok());
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<float> expected(kWidth);
      model::PoolRows(rows.values[i].data(), static_cast<int>(texts[i].size()), kWidth, pooling,
                      expected.data());
      EXPECT_TRUE(SameBits(pooled.values[i], expected)) << model::PoolingName(pooling);
    }
  }
}

// The vectors are the same bits for any other texts in the batch, any number of rows in a step and
// any number of workers: 20 trials for each number of workers, in float32 and in the file's own
// blocks.
TEST(CpuDecoderEmbedder, SameBitsInAnyBatchStepSizeAndWorkerCount) {
  const Texts texts = MakeTexts(10);
  for (const auto mode : {model::WeightMode::kF32, model::WeightMode::kInt8}) {
    const auto weights = Load(mode, tensor::DType::kQ8_0);
    for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
      const auto single = Make(weights, {.pooling = pooling});
      std::vector<std::vector<float>> alone;
      for (const auto& text : texts) alone.push_back(EncodeTexts(*single, {text}).values[0]);
      Random random(7);
      for (int workers = 1; workers <= 3; ++workers) {
        for (const int step : {512, 64, 7}) {
          const auto embedder = Make(weights, {workers, step, pooling});
          for (int trial = 0; trial < 7; ++trial) {
            std::vector<size_t> chosen;
            Texts batch;
            size_t tokens = 0;
            for (uint64_t n = 1 + random.Below(8); n > 0; --n) {
              const size_t index = random.Below(texts.size());
              if (tokens + texts[index].size() > 600) break;
              tokens += texts[index].size();
              chosen.push_back(index);
              batch.push_back(texts[index]);
            }
            if (batch.empty()) continue;
            const EncodedTexts outcome = EncodeTexts(*embedder, batch);
            ASSERT_TRUE(outcome.status.ok()) << outcome.status;
            for (size_t i = 0; i < chosen.size(); ++i)
              ASSERT_TRUE(SameBits(outcome.values[i], alone[chosen[i]]))
                  << workers << " workers, " << step << " rows, item " << i;
          }
        }
      }
    }
  }
}

// A weight of the last norm near the end of float32: some texts go over it, others do not.
TEST(CpuDecoderEmbedder, ATextWhoseVectorIsNotFiniteLeavesItsNeighboursWhole) {
  const auto bytes = gguf::testing::MakeCheckpoint(Spec()).Build();
  const auto sound = *gguf::File::FromSource(gguf::MemorySource(bytes));
  const gguf::TensorInfo* norm = sound->FindTensor("output_norm.weight");
  ASSERT_NE(norm, nullptr);
  auto spoiled = bytes;
  const float great = 3e38f;
  std::memcpy(spoiled.data() + norm->file_offset, &great, sizeof(great));
  const auto file = *gguf::File::FromSource(gguf::MemorySource(spoiled));
  model::LoadOptions load;
  load.mode = model::WeightMode::kF32;
  auto weights = model::Weights::Load(*file, load);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto embedder = Make(*weights, {.workers = 2});
  Texts good, bad;
  for (const auto& text : MakeTexts(40))
    (AllFinite(EncodeTexts(*embedder, {text}).values[0]) ? good : bad).push_back(text);
  ASSERT_GE(good.size(), 2u);
  ASSERT_GE(bad.size(), 1u);
  good.resize(2);
  const EncodedTexts alone = EncodeTexts(*embedder, good);
  const EncodedTexts mixed = EncodeTexts(*embedder, {good[0], bad[0], good[1]});
  ASSERT_TRUE(mixed.status.ok()) << "its neighbours need no second pass: " << mixed.status;
  EXPECT_FALSE(AllFinite(mixed.values[1]));
  EXPECT_TRUE(SameBits(mixed.values[0], alone.values[0]));
  EXPECT_TRUE(SameBits(mixed.values[2], alone.values[1]));
}

}  // namespace
}  // namespace tutti::runner
