// all-MiniLM-L6-v2 beside sentence-transformers: 1,000 texts and their vectors (N17).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "model/encoder.h"
#include "model/encoder_checkpoint.h"
#include "runner/compute_pool.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

struct Reference {
  std::string text;
  int tokens = 0;  // before they were cut to what the model reads
  std::vector<float> vector;
};

template <typename T>
T ReadNumber(std::istream& in) {
  T value{};
  in.read(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

// The format is that of tools/make_encoder_goldens.py.
std::vector<Reference> ReadReferences() {
  std::ifstream in(support::SourcePath("tests/golden/minilm_vectors.bin"), std::ios::binary);
  EXPECT_TRUE(in.is_open());
  const auto count = ReadNumber<uint32_t>(in);
  const auto width = ReadNumber<uint32_t>(in);
  std::vector<Reference> references(count);
  for (Reference& reference : references) {
    reference.text.resize(ReadNumber<uint32_t>(in));
    in.read(reference.text.data(), static_cast<std::streamsize>(reference.text.size()));
    reference.tokens = static_cast<int>(ReadNumber<uint32_t>(in));
    reference.vector.resize(width);
    in.read(reinterpret_cast<char*>(reference.vector.data()),
            static_cast<std::streamsize>(width * sizeof(float)));
  }
  EXPECT_TRUE(in.good());
  return references;
}

// The real checkpoint, and texts through it.
class MiniLm : public ::testing::Test {
 protected:
  static constexpr int kMaxRows = 1024;
  static constexpr size_t kSample =
      5;  // what float32 shows of all texts others show of every fifth

  void SetUp() override {
    const std::string path = support::KnownModelPath("all-minilm-l6-v2");
    auto opened = model::EncoderCheckpoint::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status() << " (" << path
                             << "; `make models NAME=all-minilm-l6-v2` fetches it)";
    checkpoint_ = std::move(*opened);
    references_ = ReadReferences();
    ASSERT_EQ(references_.size(), 1000u);
  }

  std::vector<TokenId> TokensOf(const std::string& text) const {
    std::vector<TokenId> ids = checkpoint_.tokenizer->Encode(text, {.parse_special = true});
    const auto limit = static_cast<size_t>(checkpoint_.config.max_tokens);
    if (ids.size() > limit) {
      ids[limit - 1] = ids.back();  // the text is cut, its last special token kept
      ids.resize(limit);
    }
    return ids;
  }

  std::unique_ptr<model::Encoder> MakeEncoder(model::EncoderDType dtype, int workers) {
    model::EncoderWeights::Options load;
    load.dtype = dtype;
    load.threads = 2;
    auto weights = model::EncoderWeights::Load(checkpoint_.config, *checkpoint_.tensors, load);
    EXPECT_TRUE(weights.ok()) << weights.status();
    model::Encoder::Options options;
    options.workers = workers;
    options.max_rows = kMaxRows;
    const auto kernels = kernels::SelectKernels();
    auto encoder = model::Encoder::Create(*weights, **kernels, options);
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    return *std::move(encoder);
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
      model::NormalizeRow(vectors[i].data(), width);
    }
    return vectors;
  }

  // Every `stride`-th reference, in batches as long as they fit.
  std::vector<std::vector<float>> EncodeEvery(size_t stride, model::EncoderDType dtype) {
    const auto encoder = MakeEncoder(dtype, 2);
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
  std::vector<Reference> references_;
};

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

TEST_F(MiniLm, AThousandVectorsAreThoseOfTheReference) {
  const auto vectors = EncodeEvery(1, model::EncoderDType::kF32);
  ASSERT_EQ(vectors.size(), references_.size());
  double worst_cosine = 1, worst_error = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const Reference& reference = references_[i];
    EXPECT_EQ(static_cast<int>(TokensOf(reference.text).size()),
              std::min(reference.tokens, checkpoint_.config.max_tokens))
        << i;
    double error = 0;
    for (size_t k = 0; k < vectors[i].size(); ++k)
      error = std::max(error, std::abs(double{vectors[i][k]} - reference.vector[k]));
    const double cosine = Cosine(vectors[i], reference.vector);
    EXPECT_GE(cosine, 0.9999) << "text " << i;
    EXPECT_LE(error, 1e-4) << "text " << i;
    worst_cosine = std::min(worst_cosine, cosine);
    worst_error = std::max(worst_error, error);
  }
  std::printf("float32: least cosine %.7f, greatest error %.2e\n", worst_cosine, worst_error);
}

TEST_F(MiniLm, SmallerTypesStayNearTheReference) {
  struct Case {
    model::EncoderDType dtype;
    const char* name;
    double least;
  };
  // Of this model's rows some have outliers: one scale for a whole row is too coarse to be the
  // default, and is here to be seen.
  for (const Case& c : {Case{model::EncoderDType::kBf16, "bf16", 0.999},
                        Case{model::EncoderDType::kInt8, "int8, a scale per 32", 0.99},
                        Case{model::EncoderDType::kInt8Rows, "int8, a scale per row", 0.97}}) {
    const auto vectors = EncodeEvery(kSample, c.dtype);
    double worst = 1, sum = 0;
    for (size_t i = 0; i < vectors.size(); ++i) {
      const double cosine = Cosine(vectors[i], references_[i * kSample].vector);
      EXPECT_GE(cosine, c.least) << c.name << " text " << i * kSample;
      worst = std::min(worst, cosine);
      sum += cosine;
    }
    std::printf("%s: least cosine %.5f, mean %.6f\n", c.name, worst,
                sum / static_cast<double>(vectors.size()));
  }
}

TEST_F(MiniLm, ATextGivesTheSameBitsAloneAndInMixedBatches) {
  for (const model::EncoderDType dtype : {model::EncoderDType::kF32, model::EncoderDType::kInt8}) {
    const auto together = EncodeEvery(kSample, dtype);
    const auto encoder = MakeEncoder(dtype, 1);
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
