// Files we did not write: one by the format's own Python package, and the default model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/describe.h"
#include "gguf/file.h"
#include "test_paths.h"

namespace tutti::gguf {
namespace {

using support::DefaultModelPath;
using support::SourcePath;
using ::testing::ElementsAre;

TEST(ReferenceFile, MetadataIsWhatTheReferenceWrote) {
  // Made by tools/make_tensor_goldens.py.
  const auto file = File::Open(SourcePath("tests/data/gguf/reference_writer.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  const Header& header = (*file)->header();
  EXPECT_EQ(header.version(), 3u);
  EXPECT_EQ(*GetString(header, "general.architecture"), "llama");
  EXPECT_EQ(*GetUint(header, "test.u8"), 255u);
  EXPECT_EQ(*GetUint(header, "test.u16"), 65535u);
  EXPECT_EQ(*GetUint(header, "test.u32"), 4294967295u);
  EXPECT_EQ(*GetUint(header, "test.u64"), 18446744073709551615u);
  EXPECT_EQ(LoadUnaligned<int8_t>(header.Find("test.i8")->data), -128);
  EXPECT_EQ(LoadUnaligned<int16_t>(header.Find("test.i16")->data), -32768);
  EXPECT_EQ(LoadUnaligned<int32_t>(header.Find("test.i32")->data), INT32_MIN);
  EXPECT_EQ(LoadUnaligned<int64_t>(header.Find("test.i64")->data), INT64_MIN);
  EXPECT_EQ(LoadUnaligned<float>(header.Find("test.f32")->data), 0.25f);
  EXPECT_EQ(LoadUnaligned<double>(header.Find("test.f64")->data), 1e-3);
  EXPECT_TRUE(*GetBool(header, "test.bool"));
  EXPECT_EQ(*GetString(header, "test.text"), "caf\xc3\xa9");
  const StringArray strings = *GetStrings(header, "test.strings");
  EXPECT_THAT(std::vector<std::string>(strings.begin(), strings.end()),
              ElementsAre("a", "", "\xe4\xb8\x96\xe7\x95\x8c"));
  const NumberArray<int32_t> ints = *GetInt32s(header, "test.ints");
  EXPECT_THAT((std::vector<int32_t>{ints[0], ints[1], ints[2]}), ElementsAre(-1, 0, 7));
  EXPECT_EQ((*GetFloats(header, "test.floats"))[1], -2.0f);
}

TEST(ReferenceFile, TensorsAreWhatTheReferenceWrote) {
  const auto file = File::Open(SourcePath("tests/data/gguf/reference_writer.gguf"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> expected(192);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i) - 96;
  const TensorInfo* plain = (*file)->FindTensor("plain");
  const TensorInfo* half = (*file)->FindTensor("half");
  const TensorInfo* coded = (*file)->FindTensor("coded");
  ASSERT_TRUE(plain != nullptr && half != nullptr && coded != nullptr);
  EXPECT_EQ(plain->shape, (tensor::Shape{64, 3}));
  EXPECT_EQ(half->shape, (tensor::Shape{32, 3, 2}));
  EXPECT_EQ(coded->shape, (tensor::Shape{64, 3}));
  EXPECT_THAT(*(*file)->ReadFloats(*plain), ::testing::Pointwise(::testing::Eq(), expected));
  EXPECT_THAT(*(*file)->ReadFloats(*half), ::testing::Pointwise(::testing::Eq(), expected));
  EXPECT_THAT(*(*file)->ReadFloats(*coded),
              ::testing::Pointwise(::testing::FloatNear(0.5f), expected));
}

TEST(DefaultModel, OpensWithItsShapeAndFiniteWeights) {
  const auto file = File::Open(DefaultModelPath());
  ASSERT_TRUE(file.ok()) << file.status() << ": run `make models`";
  const Header& header = (*file)->header();
  EXPECT_EQ(*GetString(header, "general.architecture"), "llama");
  EXPECT_EQ(*GetUint(header, "llama.block_count"), 30u);
  EXPECT_EQ(*GetUint(header, "llama.embedding_length"), 576u);
  EXPECT_EQ(*GetString(header, "tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(GetStrings(header, "tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ((*file)->tensors().size(), 272u);
  EXPECT_EQ((*file)->FindTensor("output.weight"), nullptr) << "the head is tied";
  const TensorInfo* embedding = (*file)->FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (tensor::Shape{576, 49152}));
  for (const TensorInfo& tensor : (*file)->tensors()) {
    const Status finite = (*file)->CheckFinite(tensor);
    EXPECT_TRUE(finite.ok()) << finite;
  }
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
}

TEST(DefaultModel, IsDescribedInFull) {
  const Description description = Describe(DefaultModelPath());
  EXPECT_TRUE(description.verdict.ok()) << description.verdict;
  EXPECT_EQ(description.file_bytes, 98362432u);
  EXPECT_EQ(description.metadata.size(), 33u);
  EXPECT_EQ(description.tensors.size(), 272u);
  EXPECT_EQ(description.parameters, 134515008u);
  ASSERT_FALSE(description.types.empty());
}

}  // namespace
}  // namespace tutti::gguf
