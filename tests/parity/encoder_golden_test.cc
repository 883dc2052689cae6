// all-MiniLM-L6-v2 compared with sentence-transformers: embeddings of 1,000 texts (N17).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "amount.h"
#include "minilm.h"
#include "model/encoder.h"
#include "model/encoder_choice.h"
#include "runner/compute_pool.h"

namespace tutti::parity {
namespace {

// The real checkpoint, and texts through it.
class MiniLm : public ::testing::Test {
 protected:
  static constexpr int kMaxRows = 1024;
  static constexpr size_t kSample =
      5;  // what float32 shows of all texts others show of every fifth

  void SetUp() override {
    auto opened = OpenMiniLm();
    ASSERT_TRUE(opened.ok());
    checkpoint_ = std::move(*opened);
    references_ = ReadTextReferences();
    ASSERT_EQ(references_.size(), 1000u);
  }

  std::vector<TokenId> TokensOf(const std::string& text) const {
    return checkpoint_.tokenizer->EncodeInput(text, {.max_tokens = checkpoint_.config.max_tokens})
        .ids;
  }

  std::unique_ptr<model::Encoder> Make(model::EncoderDType dtype, int workers) {
    return MakeEncoder(LoadWeights(checkpoint_, dtype), workers, kMaxRows);
  }

  // One pass over the texts, packed.
  std::vector<std::vector<float>> Encode(model::Encoder& encoder, runner::ComputePool& pool,
                                         const std::vector<std::vector<TokenId>>& texts) const {
    std::vector<TokenId> tokens;
    std::vector<int32_t> offsets = {0};
    for (const auto& text : texts) {
      tokens.insert(tokens.end(), text.begin(), text.end());
      offsets.push_back(static_cast<int32_t>(tokens.size()));
    }
    const model::EncoderBatch batch{tokens, {}, offsets};
    encoder.Prepare(batch);
    pool.Run([&](model::Team& team) { encoder.Run(batch, team); });
    const int width = checkpoint_.config.width;
    std::vector<std::vector<float>> vectors(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      vectors[i].resize(static_cast<size_t>(width));
      const float* rows =
          encoder.hidden() + static_cast<size_t>(offsets[i]) * static_cast<size_t>(width);
      model::PoolRows(rows, offsets[i + 1] - offsets[i], width, checkpoint_.config.pooling,
                      vectors[i].data());
      Normalize(vectors[i]);
    }
    return vectors;
  }

  // Every `stride`-th reference, in batches as long as they fit.
  std::vector<std::vector<float>> EncodeEvery(size_t stride, model::EncoderDType dtype) {
    const auto encoder = Make(dtype, 2);
    runner::ComputePool pool({.workers = 2});
    std::vector<std::vector<float>> vectors;
    std::vector<std::vector<TokenId>> batch;
    size_t rows = 0;
    const auto flush = [&] {
      for (auto& vector : Encode(*encoder, pool, batch)) vectors.push_back(std::move(vector));
      batch.clear();
      rows = 0;
    };
    for (size_t i = 0; i < references_.size(); i += stride) {
      std::vector<TokenId> tokens = TokensOf(references_[i].text);
      if (rows + tokens.size() > kMaxRows) flush();
      rows += tokens.size();
      batch.push_back(std::move(tokens));
    }
    flush();
    return vectors;
  }

  model::EncoderCheckpoint checkpoint_;
  std::vector<TextReference> references_;
};

TEST_F(MiniLm, AThousandVectorsAreThoseOfTheReference) {
  const auto stride = static_cast<size_t>(support::Amount(1, 4, 10));
  const auto vectors = EncodeEvery(stride, model::EncoderDType::kF32);
  ASSERT_EQ(vectors.size(), references_.size() / stride);
  double worst_cosine = 1, worst_error = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const TextReference& reference = references_[i * stride];
    EXPECT_EQ(TokensOf(reference.text).size(), static_cast<size_t>(reference.tokens)) << i;
    double error = 0;
    for (size_t k = 0; k < vectors[i].size(); ++k)
      error = std::max(error, std::abs(double{vectors[i][k]} - reference.vector[k]));
    const double cosine = Cosine(vectors[i], reference.vector);
    EXPECT_GE(cosine, 0.9999) << "text " << i;
    EXPECT_LE(error, 1e-4) << "text " << i;
    worst_cosine = std::min(worst_cosine, cosine);
    worst_error = std::max(worst_error, error);
  }
  std::printf("float32: minimum cosine %.7f, greatest error %.2e\n", worst_cosine, worst_error);
}

TEST_F(MiniLm, SmallerTypesStayNearTheReference) {
  struct Case {
    model::EncoderDType dtype;
    const char* name;
    double least;
  };
  for (const Case& c : {Case{model::EncoderDType::kBf16, "bf16", 0.999},
                        Case{model::EncoderDType::kInt8, "int8, a scale per row", 0.99},
                        Case{model::EncoderDType::kInt8Blocks, "int8, a scale per 32", 0.99}}) {
    const auto vectors = EncodeEvery(kSample, c.dtype);
    double worst = 1, sum = 0;
    for (size_t i = 0; i < vectors.size(); ++i) {
      const double cosine = Cosine(vectors[i], references_[i * kSample].vector);
      EXPECT_GE(cosine, c.least) << c.name << " text " << i * kSample;
      worst = std::min(worst, cosine);
      sum += cosine;
    }
    std::printf("%s: minimum cosine %.5f, mean %.6f\n", c.name, worst,
                sum / static_cast<double>(vectors.size()));
  }
}

TEST_F(MiniLm, Int8IsItsDefaultType) {
  model::ChooseOptions options;
  options.kernels = *kernels::SelectKernels();
  options.threads = 2;
  const auto choice = model::ChooseEncoderWeights(checkpoint_.config, *checkpoint_.tensors,
                                                  *checkpoint_.tokenizer, options);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->dtype(), model::EncoderDType::kInt8);
  EXPECT_GE(*choice->cosine, model::kMinCosine);
  std::printf("%s, chosen in %.2f s\n", choice->ToString().c_str(), choice->seconds);
}

TEST_F(MiniLm, ATextGivesTheSameBitsAloneAndInMixedBatches) {
  for (const model::EncoderDType dtype : {model::EncoderDType::kF32, model::EncoderDType::kInt8}) {
    const auto together = EncodeEvery(kSample, dtype);
    const auto encoder = Make(dtype, 1);
    runner::ComputePool pool({.workers = 1});
    for (size_t i = 0; i < together.size(); ++i) {
      const auto alone = Encode(*encoder, pool, {TokensOf(references_[i * kSample].text)})[0];
      ASSERT_EQ(std::memcmp(alone.data(), together[i].data(), alone.size() * sizeof(float)), 0)
          << "text " << i * kSample;
    }
  }
}

}  // namespace
}  // namespace tutti::parity
