// Embeddings of texts by the default model, compared with an independent float32 implementation:
// the last token's row after the last norm (tools/reference_llama.py hidden).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

#include "golden_data.h"
#include "minilm.h"
#include "runner/cpu_decoder_embedder.h"
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
    // All in one batch.
    const auto width = static_cast<size_t>((*embedder)->limits().width);
    std::vector<std::vector<float>> vectors(prompts.size(), std::vector<float>(width));
    std::vector<TokenId> tokens;
    std::vector<int32_t> offsets = {0};
    std::vector<engine::EncodeItem> items;
    for (size_t i = 0; i < prompts.size(); ++i) {
      items.push_back({static_cast<int>(tokens.size()), static_cast<int>(prompts[i].prompt.size()),
                       api::EncodeOutput::kPooled, vectors[i]});
      tokens.insert(tokens.end(), prompts[i].prompt.begin(), prompts[i].prompt.end());
      offsets.push_back(static_cast<int32_t>(tokens.size()));
    }
    engine::EncodeBatch batch;
    batch.tokens = tokens;
    batch.items = items;
    batch.offsets = offsets;
    (*embedder)->Launch(batch);
    ASSERT_TRUE((*embedder)->Collect().ok());
    double worst = 1, error = 0;
    for (size_t i = 0; i < vectors.size(); ++i) {
      std::vector<float> a = vectors[i], b = expected[i];
      Normalize(a);
      Normalize(b);
      worst = std::min(worst, Cosine(a, b));
      for (size_t k = 0; k < width; ++k) error = std::max(error, std::abs(double{a[k]} - b[k]));
    }
    EXPECT_GE(worst, c.least) << c.name;
    EXPECT_LE(error, c.greatest_error) << c.name;
    std::printf("%s: least cosine %.6f, greatest error %.2e\n", c.name, worst, error);
  }
}

}  // namespace
}  // namespace tutti::parity
