#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"

namespace tutti::model {
namespace {

using gguf::testing::CheckpointSpec;
using gguf::testing::Writer;
using gguf::testing::WriterTensor;
using tensor::DType;
using ::testing::HasSubstr;

CheckpointSpec SmallSpec(DType type = DType::kQ4_0) {
  CheckpointSpec spec;
  spec.width = 64;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_width = 32;
  spec.feed_forward = 96;
  spec.type = type;
  return spec;
}

std::shared_ptr<const gguf::File> Open(const Writer& writer) {
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return *file;
}

Result<std::shared_ptr<const Weights>> Load(const Writer& writer, const LoadOptions& options = {}) {
  return Weights::Load(*Open(writer), options);
}

std::vector<float> Unpack(const kernels::PackedMatrix& matrix, int row) {
  std::vector<float> out(static_cast<size_t>(matrix.cols));
  kernels::UnpackRow(matrix, row, out.data());
  return out;
}

std::vector<float> FileRow(const gguf::File& file, const std::string& name, int row) {
  const auto* info = file.FindTensor(name);
  const auto all = file.ReadFloats(*info);
  const auto width = info->shape.columns();
  return {all->begin() + row * width, all->begin() + (row + 1) * width};
}

TEST(WeightsTest, FusesQkvAndInterleavesGateAndUp) {
  const auto file = Open(gguf::testing::MakeCheckpoint(SmallSpec()));
  const auto weights = Weights::Load(*file, {.threads = 3});
  ASSERT_TRUE(weights.ok()) << weights.status();
  const LayerWeights& layer = (*weights)->layer(1);
  ASSERT_EQ(layer.qkv.parts.size(), 1u);
  EXPECT_EQ(layer.qkv.columns(), 128);  // 64 + 32 + 32
  EXPECT_EQ(Unpack(layer.qkv.parts[0], 0), FileRow(*file, "blk.1.attn_q.weight", 0));
  EXPECT_EQ(Unpack(layer.qkv.parts[0], 64 + 7), FileRow(*file, "blk.1.attn_k.weight", 7));
  EXPECT_EQ(Unpack(layer.qkv.parts[0], 96 + 31), FileRow(*file, "blk.1.attn_v.weight", 31));
  EXPECT_EQ(Unpack(layer.gate_up.parts[0], 32 + 5),
            FileRow(*file, "blk.1.ffn_gate.weight", 16 + 5));
  EXPECT_EQ(Unpack(layer.gate_up.parts[0], 32 + 16 + 5),
            FileRow(*file, "blk.1.ffn_up.weight", 16 + 5));
  EXPECT_EQ(Unpack((*weights)->embedding(), 9), FileRow(*file, "token_embd.weight", 9));
  EXPECT_EQ((*weights)->embedding().data, (*weights)->head().parts[0].data);  // tied
  EXPECT_EQ(layer.attn_norm[3], FileRow(*file, "blk.1.attn_norm.weight", 0)[3]);
}

TEST(WeightsTest, SixteenBitsHoldEveryTypeToTheNearest) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kIQ4_NL}) {
    const auto file = Open(gguf::testing::MakeCheckpoint(SmallSpec(type)));
    const std::vector<float> want = FileRow(*file, "blk.0.attn_q.weight", 5);
    const auto f32 = Weights::Load(*file, {.mode = WeightMode::kF32});
    ASSERT_TRUE(f32.ok()) << f32.status();
    for (const WeightMode mode : {WeightMode::kF16, WeightMode::kBf16}) {
      const auto weights = Weights::Load(*file, {.mode = mode});
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_LT((*weights)->bytes(), (*f32)->bytes() * 6 / 10);
      const LayerWeights& layer = (*weights)->layer(0);
      EXPECT_FALSE(layer.qkv.reads_quantized());
      const std::vector<float> got = Unpack(layer.qkv.parts[0], 5);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(got[i], want[i],
                    std::fabs(want[i]) * (mode == WeightMode::kF16 ? 0x1p-11f : 0x1p-8f) + 1e-7f);
      }
    }
  }
}

TEST(WeightsTest, ReportsProgressAndCanBeAbandoned) {
  const Writer writer = gguf::testing::MakeCheckpoint(SmallSpec());
  size_t last = 0, total = 0;
  int calls = 0;
  LoadOptions options;
  options.progress = [&](size_t done, size_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    ++calls;
    return true;
  };
  const auto weights = Load(writer, options);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_GE(calls, 9);
  EXPECT_EQ(last, total);
  EXPECT_EQ((*weights)->bytes(), total);

  options.progress = [&](size_t, size_t) { return false; };
  EXPECT_EQ(Load(writer, options).status().code(), StatusCode::kCancelled);
}

// One tensor is written by hand instead of by the generator.
Writer WithTensor(const std::string& name, WriterTensor replacement) {
  CheckpointSpec spec = SmallSpec(DType::kF32);
  const auto sound = Open(gguf::testing::MakeCheckpoint(spec));
  spec.tensors = false;
  Writer writer = gguf::testing::MakeCheckpoint(spec);
  for (const gguf::TensorInfo& tensor : sound->tensors()) {
    if (tensor.name == name) {
      if (!replacement.name.empty()) writer.Tensor(replacement);
      continue;
    }
    WriterTensor copy{std::string(tensor.name), {}, tensor.type_id, {}, {}};
    for (int d = 0; d < tensor.shape.dims; ++d)
      copy.ne.push_back(static_cast<uint64_t>(tensor.shape.ne[static_cast<size_t>(d)]));
    copy.data.resize(tensor.bytes);
    CHECK(sound->Read(tensor, 0, copy.data).ok());
    writer.Tensor(copy);
  }
  return writer;
}

WriterTensor Floats(const std::string& name, std::vector<uint64_t> ne,
                    const std::vector<float>& values) {
  WriterTensor tensor{name, std::move(ne), static_cast<uint32_t>(DType::kF32), {}, {}};
  gguf::testing::AppendBytes(&tensor.data, values.data(), values.size() * sizeof(float));
  return tensor;
}

TEST(WeightsTest, NamesAMissingTensor) {
  for (const char* name :
       {"blk.1.ffn_down.weight", "blk.0.attn_norm.weight", "output_norm.weight"}) {
    const auto weights = Load(WithTensor(name, {}));
    EXPECT_EQ(weights.status().reason(), "model_tensor_missing");
    EXPECT_THAT(weights.status().message(), HasSubstr(name));
  }
}

TEST(WeightsTest, NamesATensorOfAnotherShape) {
  const auto weights = Load(WithTensor(
      "blk.0.attn_k.weight", Floats("blk.0.attn_k.weight", {32, 64}, std::vector<float>(2048))));
  EXPECT_EQ(weights.status().reason(), "gguf_shape");
  EXPECT_THAT(weights.status().message(), HasSubstr("blk.0.attn_k.weight is {32, 64}"));
}

TEST(WeightsTest, NamesATensorThatDoesNotBelong) {
  Writer writer = gguf::testing::MakeCheckpoint(SmallSpec());
  writer.Tensor("blk.2.attn_q.weight", DType::kF32, {64, 64}, std::vector<float>(4096));
  const auto weights = Load(writer);
  EXPECT_EQ(weights.status().reason(), "model_hparam");
  EXPECT_THAT(weights.status().message(), HasSubstr("blk.2.attn_q.weight"));
}

TEST(WeightsTest, RefusesValuesThatAreNotFiniteInEveryKindOfTensor) {
  std::vector<float> matrix(64 * 32, 0.5f), vector(64, 1.0f);
  matrix[77] = std::numeric_limits<float>::infinity();
  vector[3] = std::numeric_limits<float>::quiet_NaN();
  for (const Writer& writer :
       {WithTensor("blk.1.attn_v.weight", Floats("blk.1.attn_v.weight", {64, 32}, matrix)),
        WithTensor("blk.0.ffn_norm.weight", Floats("blk.0.ffn_norm.weight", {64}, vector))}) {
    const auto weights = Load(writer);
    EXPECT_EQ(weights.status().reason(), "model_nonfinite") << weights.status();
  }
}

TEST(WeightsTest, PagesAreReadOnlyAndStayTheSame) {
  const auto weights = Load(gguf::testing::MakeCheckpoint(SmallSpec()));
  ASSERT_TRUE(weights.ok()) << weights.status();
  auto* page = const_cast<std::byte*>((*weights)->data());
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(page) = 1, "");
  auto* last = page + (*weights)->bytes() - 1;
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(last) = 1, "");
}

TEST(WeightsTest, APlanTakesWhatALoadTakes) {
  for (const bool tied : {true, false}) {
    CheckpointSpec spec = SmallSpec(DType::kQ5_1);
    spec.tied = tied;
    const auto file = Open(gguf::testing::MakeCheckpoint(spec));
    const auto checkpoint = DecoderCheckpoint::FromGguf(*file);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (const WeightMode mode : {WeightMode::kInt8, WeightMode::kF32, WeightMode::kBf16}) {
      const auto planned = Weights::Plan(*checkpoint, {.mode = mode, .bf16_pairs = true});
      const auto loaded = Weights::Load(*checkpoint, {.mode = mode, .bf16_pairs = true});
      ASSERT_TRUE(planned.ok() && loaded.ok()) << planned.status() << loaded.status();
      EXPECT_GT((*planned)->bytes(), size_t{0});
      EXPECT_EQ((*planned)->bytes(), (*loaded)->bytes());
      EXPECT_EQ((*planned)->data(), nullptr);
    }
  }
}

TEST(WeightsTest, LoadingTwiceGivesTheSameBytes) {
  const Writer writer = gguf::testing::MakeCheckpoint(SmallSpec(DType::kQ5_1));
  const auto a = Load(writer, {.threads = 1}), b = Load(writer, {.threads = 4});
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ((*a)->bytes(), (*b)->bytes());
  EXPECT_EQ(std::memcmp((*a)->data(), (*b)->data(), (*a)->bytes()), 0);
}

}  // namespace
}  // namespace tutti::model
