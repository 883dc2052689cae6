// Embeddings of texts by the default model, compared with an independent float32 implementation:
// the last token's row after the last norm (tools/reference_llama.py hidden). Small decoders that
// were published for vectors or scores, compared with sentence-transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include "decoder_families.h"
#include "golden_data.h"
#include "minilm.h"
#include "runner/cpu_decoder_embedder.h"
#include "runner/testing/encode_texts.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

std::vector<std::vector<float>> ReadRows() {
  std::ifstream in(support::SourcePath("tests/golden/hidden.bin"), std::ios::binary);
  EXPECT_TRUE(in.is_open());
  std::vector<std::vector<float>> rows(ReadNumber<uint32_t>(in));
  const auto width = ReadNumber<uint32_t>(in);
  for (auto& row : rows) {
    row.resize(width);
    in.read(reinterpret_cast<char*>(row.data()),
            static_cast<std::streamsize>(width * sizeof(float)));
  }
  EXPECT_TRUE(in.good());
  return rows;
}

TEST(DecoderVectors, AreTheRowsOfTheReference) {
  const auto prompts = ReadGreedyReferences();
  const auto expected = ReadRows();
  ASSERT_EQ(prompts.size(), expected.size());
  struct Case {
    model::WeightMode mode;
    const char* name;
    double least, greatest_error;  // of vectors of length 1
  };
  for (const Case& c : {Case{model::WeightMode::kF32, "f32", 0.999999, 1e-4},
                        Case{model::WeightMode::kInt8, "int8", 0.99, 0.05}}) {
    runner::DecoderEmbedderOptions options;
    options.kernels = *kernels::SelectKernels();
    options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
    const auto weights = TestWeights(c.mode, options.kernels->isa);
    ASSERT_NE(weights, nullptr);
    auto embedder = runner::CpuDecoderEmbedder::Create(weights, options);
    ASSERT_TRUE(embedder.ok()) << embedder.status();
    std::vector<std::vector<TokenId>> texts;
    for (const auto& reference : prompts) texts.push_back(reference.prompt);
    const auto encoded = runner::EncodeTexts(**embedder, texts);
    ASSERT_TRUE(encoded.status.ok());
    const auto& vectors = encoded.values;
    double worst = 1, error = 0;
    for (size_t i = 0; i < vectors.size(); ++i) {
      std::vector<float> a = vectors[i], b = expected[i];
      Normalize(a);
      Normalize(b);
      worst = std::min(worst, Cosine(a, b));
      for (size_t k = 0; k < a.size(); ++k) error = std::max(error, std::abs(double{a[k]} - b[k]));
    }
    EXPECT_GE(worst, c.least) << c.name;
    EXPECT_LE(error, c.greatest_error) << c.name;
    std::printf("%s: minimum cosine %.6f, greatest error %.2e\n", c.name, worst, error);
  }
}

std::unique_ptr<runner::CpuDecoderEmbedder> MakeEmbedder(const model::DecoderCheckpoint& checkpoint,
                                                         model::WeightMode mode, int workers,
                                                         int step) {
  EXPECT_TRUE(checkpoint.encodes());
  const auto weights = model::Weights::Load(checkpoint, {.mode = mode});
  EXPECT_TRUE(weights.ok()) << weights.status();
  runner::DecoderEmbedderOptions options;
  options.kernels = *kernels::SelectKernels();
  options.pool =
      std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = workers});
  options.max_step_tokens = step;
  options.pooling = checkpoint.vectors->pooling;
  options.head = checkpoint.head;
  auto made = runner::CpuDecoderEmbedder::Create(*weights, options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

std::unique_ptr<runner::CpuDecoderEmbedder> MakeEmbedder(const FamilyGolden& golden,
                                                         model::WeightMode mode, int workers,
                                                         int step) {
  const auto checkpoint = OpenVectors(golden);
  EXPECT_TRUE(checkpoint.ok()) << golden.family << ": " << checkpoint.status();
  return MakeEmbedder(*checkpoint, mode, workers, step);
}

// The values of each text, all texts in one batch.
std::vector<std::vector<float>> RunTexts(runner::CpuDecoderEmbedder& embedder,
                                         const std::vector<std::vector<TokenId>>& texts) {
  const bool scores = embedder.limits().labels > 0;
  const auto encoded = runner::EncodeTexts(
      embedder, texts, scores ? api::EncodeOutput::kScores : api::EncodeOutput::kPooled);
  EXPECT_TRUE(encoded.status.ok());
  return encoded.values;
}

std::vector<std::vector<TokenId>> TextsOf(const FamilyGolden& golden) {
  std::vector<std::vector<TokenId>> texts;
  for (const auto& run : golden.entry.at("runs").as_array()) {
    const auto seed = run.at("seed").to_number<int64_t>();
    std::vector<TokenId>& ids = texts.emplace_back();
    for (int64_t i = 0; i < run.at("length").to_number<int64_t>(); ++i)
      ids.push_back(static_cast<TokenId>(3 + (i * i * seed + i * 7 + seed) % 77));
  }
  return texts;
}

// `values`: of the golden's texts.
void ExpectReference(const FamilyGolden& golden, const model::DecoderCheckpoint& checkpoint,
                     const std::vector<std::vector<float>>& values, double cosine, double error) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<float> expected, found = values[i];
    const auto& run = golden.entry.at("runs").at(i);
    for (const auto& value : run.at("values").as_array())
      expected.push_back(value.to_number<float>());
    if (checkpoint.vectors->normalize) Normalize(found);
    ASSERT_EQ(found.size(), expected.size()) << golden.family;
    if (found.size() > 1) {
      EXPECT_GE(Cosine(found, expected), cosine) << golden.family << ", text " << i;
    }
    for (size_t k = 0; k < found.size(); ++k)
      ASSERT_NEAR(found[k], expected[k], error) << golden.family << ", text " << i;
  }
}

TEST(DecoderVectors, AreThoseOfSentenceTransformers) {
  int compared = 0;
  for (const FamilyGolden& golden : VectorGoldens()) {
    const auto texts = TextsOf(golden);
    const auto checkpoint = OpenVectors(golden);
    ASSERT_TRUE(checkpoint.ok()) << golden.family << ": " << checkpoint.status();
    const auto embedder = MakeEmbedder(*checkpoint, model::WeightMode::kF32, 2, 512);
    ExpectReference(golden, *checkpoint, RunTexts(*embedder, texts), 0.999999, 2e-5);
    compared += static_cast<int>(texts.size());
  }
  EXPECT_EQ(compared, 21);
}

TEST(DecoderVectors, AreThoseOfTheFolderInAGguf) {
  int compared = 0;
  for (const FamilyGolden& golden : VectorGoldens()) {
    if (golden.entry.if_contains("gguf") == nullptr) continue;
    const auto texts = TextsOf(golden);
    const auto folder = RunTexts(*MakeEmbedder(golden, model::WeightMode::kF32, 1, 512), texts);
    const auto opened = OpenVectorsGguf(golden, tensor::DType::kF32);
    ASSERT_TRUE(opened.ok()) << golden.family << ": " << opened.status();
    EXPECT_TRUE(opened->checkpoint.remarks.empty()) << opened->checkpoint.remarks[0];
    const auto exact = MakeEmbedder(opened->checkpoint, model::WeightMode::kF32, 1, 512);
    EXPECT_EQ(RunTexts(*exact, texts), folder) << golden.family;
    const auto quantized = OpenVectorsGguf(golden, tensor::DType::kQ8_0);
    ASSERT_TRUE(quantized.ok()) << golden.family << ": " << quantized.status();
    const auto served = MakeEmbedder(quantized->checkpoint, model::WeightMode::kInt8, 1, 512);
    ExpectReference(golden, quantized->checkpoint, RunTexts(*served, texts), 0.998, 0.1);
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

TEST(DecoderVectors, HaveTheSameBitsAloneAndInABatchInAnyStep) {
  for (const FamilyGolden& golden : VectorGoldens()) {
    const auto texts = TextsOf(golden);
    for (const auto mode : {model::WeightMode::kF32, model::WeightMode::kInt8}) {
      const auto together = RunTexts(*MakeEmbedder(golden, mode, 3, 512), texts);
      const auto embedder = MakeEmbedder(golden, mode, 1, 40);
      for (size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(RunTexts(*embedder, {texts[i]})[0], together[i]) << golden.family;
    }
  }
}

TEST(DecoderVectors, StayNearInTheServedArithmetic) {
  for (const FamilyGolden& golden : VectorGoldens()) {
    const auto texts = TextsOf(golden);
    const auto exact = RunTexts(*MakeEmbedder(golden, model::WeightMode::kF32, 1, 512), texts);
    const auto served = RunTexts(*MakeEmbedder(golden, model::WeightMode::kInt8, 1, 512), texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (exact[i].size() == 1) {
        EXPECT_NEAR(served[i][0], exact[i][0], 0.1) << golden.family;
      } else {
        EXPECT_GE(Cosine(served[i], exact[i]), 0.999) << golden.family;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::parity
