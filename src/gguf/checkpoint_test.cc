// The generated checkpoints other folders test with: sound in every type and variant, and
// reproducible.
#include "gguf/testing/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gguf/file.h"

namespace tutti::gguf::testing {
namespace {

using tensor::DType;

std::shared_ptr<const File> Open(const CheckpointSpec& spec) {
  const auto file = File::FromSource(MemorySource(MakeCheckpoint(spec).Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}

TEST(Checkpoint, EveryTypeHoldsTheSameModelUpToQuantisation) {
  CheckpointSpec plain;
  const auto exact = Open(plain);
  ASSERT_NE(exact, nullptr);
  for (DType dtype : tensor::kReadableTypes) {
    CheckpointSpec spec;
    spec.type = dtype;
    const auto file = Open(spec);
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(file->tensors().size(), exact->tensors().size());
    for (const TensorInfo& tensor : file->tensors()) {
      ASSERT_TRUE(file->CheckFinite(tensor).ok());
      const std::vector<float> values = *file->ReadFloats(tensor);
      const std::vector<float> wanted = *exact->ReadFloats(*exact->FindTensor(tensor.name));
      double error = 0, power = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        error += (values[i] - wanted[i]) * (values[i] - wanted[i]);
        power += wanted[i] * wanted[i];
      }
      ASSERT_LT(std::sqrt(error / power), 0.08) << dtype << " " << tensor.name;
    }
  }
}

TEST(Checkpoint, TheSameSeedGivesTheSameBytesAndAnotherDoesNot) {
  CheckpointSpec spec;
  spec.type = DType::kQ4_1;
  const Bytes first = MakeCheckpoint(spec).Build();
  EXPECT_EQ(first, MakeCheckpoint(spec).Build());
  spec.seed = 2;
  EXPECT_NE(first, MakeCheckpoint(spec).Build());
  // Fixed for all machines: other tests store what these weights compute.
  const std::vector<float> weights = CheckpointWeights(1, "token_embd.weight", 4, 256);
  EXPECT_THAT(weights, ::testing::ElementsAre(-0x1.be56f4p-5f, -0x1.4c4774p-4f, 0x1.367c34p-4f,
                                              0x1.0be46ap-4f));
}

TEST(Checkpoint, VariantsDifferWhereTheySay) {
  CheckpointSpec spec;
  spec.tied = false;
  spec.rope = RopeScaling::kLlama3;
  spec.vocabulary = 512;
  spec.embedding_type = DType::kF16;
  spec.type = DType::kQ4_K;
  const auto file = Open(spec);
  ASSERT_NE(file, nullptr);
  ASSERT_NE(file->FindTensor("output.weight"), nullptr);
  EXPECT_EQ(file->FindTensor("output.weight")->shape, (tensor::Shape{256, 512}));
  EXPECT_EQ(file->FindTensor("output.weight")->dtype(), DType::kF16);
  EXPECT_EQ(file->FindTensor("blk.1.ffn_down.weight")->dtype(), DType::kQ4_K);
  EXPECT_EQ(file->FindTensor("rope_freqs.weight")->shape, (tensor::Shape{32}));
  EXPECT_EQ(GetStrings(file->header(), "tokenizer.ggml.tokens")->size(), 512u);
  const std::vector<float> factors = Llama3RopeFactors(64, 10000.0f);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
  EXPECT_EQ(std::count_if(factors.begin(), factors.end(), [](float f) { return f > 1 && f < 8; }),
            5);

  spec.tensors = false;
  EXPECT_TRUE(Open(spec)->tensors().empty());
  spec.rope = RopeScaling::kLinear;
  const auto scaled = Open(spec);
  EXPECT_EQ(LoadUnaligned<float>(scaled->header().Find("llama.rope.scaling.factor")->data), 4.0f);
}

TEST(Checkpoint, TheVocabularyIsClosedUnderItsMerges) {
  const std::vector<std::string> tokens = CheckpointTokens();
  const std::set<std::string> unique(tokens.begin(), tokens.end());
  EXPECT_EQ(unique.size(), tokens.size()) << "a text appears twice";
  EXPECT_EQ(tokens[kEndOfText], "<|endoftext|>");
  EXPECT_EQ(tokens[kImEnd], "<|im_end|>");
  std::set<std::string> made(tokens.begin() + 3, tokens.begin() + 3 + 256);
  for (const std::string& merge : CheckpointMerges()) {
    const size_t space = merge.find(' ');
    ASSERT_NE(space, std::string::npos) << merge;
    EXPECT_TRUE(made.count(merge.substr(0, space)) == 1 && made.count(merge.substr(space + 1)) == 1)
        << merge;
    const std::string whole = merge.substr(0, space) + merge.substr(space + 1);
    EXPECT_TRUE(unique.count(whole) == 1 && made.insert(whole).second) << merge;
  }
}

}  // namespace
}  // namespace tutti::gguf::testing
