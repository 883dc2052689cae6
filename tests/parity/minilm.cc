#include "minilm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "model/encoder_choice.h"
#include "test_paths.h"

namespace tutti::parity {

std::vector<TextReference> ReadTextReferences() {
  std::ifstream in(support::SourcePath("tests/golden/minilm_vectors.bin"), std::ios::binary);
  EXPECT_TRUE(in.is_open());
  const auto count = ReadNumber<uint32_t>(in);
  const auto width = ReadNumber<uint32_t>(in);
  std::vector<TextReference> references(count);
  for (TextReference& reference : references) {
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

std::string MiniLmPath() { return support::KnownModelPath("all-minilm-l6-v2"); }

Result<model::EncoderCheckpoint> OpenMiniLm() {
  auto opened = model::EncoderCheckpoint::Open(MiniLmPath());
  EXPECT_TRUE(opened.ok()) << opened.status() << " (" << MiniLmPath()
                           << "; `make models NAME=all-minilm-l6-v2` fetches it)";
  return opened;
}

std::shared_ptr<const model::EncoderWeights> LoadWeights(const model::EncoderCheckpoint& checkpoint,
                                                         model::EncoderDType dtype) {
  if (dtype == model::EncoderDType::kInt8) {
    model::ChooseOptions options;
    options.dtype = dtype;
    options.kernels = *kernels::SelectKernels();
    options.threads = 2;
    auto choice = model::ChooseEncoderWeights(checkpoint.config, *checkpoint.tensors,
                                              *checkpoint.tokenizer, options);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return choice->weights;
  }
  model::EncoderWeights::Options options;
  options.dtype = dtype;
  options.threads = 2;
  auto weights = model::EncoderWeights::Load(checkpoint.config, *checkpoint.tensors, options);
  EXPECT_TRUE(weights.ok()) << weights.status();
  return *weights;
}

std::unique_ptr<model::Encoder> MakeEncoder(std::shared_ptr<const model::EncoderWeights> weights,
                                            int workers, int max_rows) {
  model::Encoder::Options options;
  options.workers = workers;
  options.max_rows = max_rows;
  auto encoder = model::Encoder::Create(std::move(weights), **kernels::SelectKernels(), options);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

void Normalize(std::vector<float>& vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : vector) value = static_cast<float>(double{value} / length);
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

}  // namespace tutti::parity
