#include "model/outliers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "model/weights.h"
#include "tensor/blocks.h"

namespace tutti::model {
namespace {

using gguf::testing::CheckpointSpec;
using tensor::DType;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Not;

// A small model; which outliers its random weights have does not matter.
CheckpointSpec OutlierSpec(DType type = DType::kQ4_0) {
  CheckpointSpec spec;
  spec.width = 64;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_width = 32;
  spec.feed_forward = 96;
  spec.type = type;
  return spec;
}

Result<std::shared_ptr<const Weights>> Load(const CheckpointSpec& spec,
                                            const LoadOptions& options = {}) {
  auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  CHECK(file.ok()) << file.status();
  return Weights::Load(**file, options);
}

TEST(OutliersTest, AreTheSameAtEveryLoadAndFoundOncePerInput) {
  const auto once = Load(OutlierSpec());
  const auto again = Load(OutlierSpec(), {.threads = 3});
  ASSERT_TRUE(once.ok() && again.ok());
  for (int i = 0; i < (*once)->config().layers; ++i) {
    const LayerWeights& layer = (*once)->layer(i);
    EXPECT_THAT(layer.qkv.outliers, ElementsAreArray((*again)->layer(i).qkv.outliers));
    EXPECT_THAT(layer.gate_up.outliers, ElementsAreArray((*again)->layer(i).gate_up.outliers));
    EXPECT_THAT(layer.attn_output.outliers, IsEmpty());
    EXPECT_THAT(layer.down.outliers, IsEmpty());
  }
  EXPECT_LE((*once)->head().outliers.size(), size_t{kernels::kMaxOutliers});
}

// A norm that multiplies two columns by 60 makes outliers of them, for what reads it alone.
TEST(OutliersTest, ArePlantedColumns) {
  const CheckpointSpec spec = OutlierSpec();
  std::vector<float> norm(spec.width, 1.0F);
  norm[5] = norm[40] = 60;
  for (const bool attention : {true, false}) {
    const char* name = attention ? "blk.1.attn_norm.weight" : "blk.0.ffn_norm.weight";
    gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(spec);
    writer.Without(name).Tensor(name, DType::kF32, {spec.width}, norm);
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto weights = Weights::Load(**file, {});
    ASSERT_TRUE(weights.ok()) << weights.status();
    const LayerWeights& planted = (*weights)->layer(attention ? 1 : 0);
    EXPECT_THAT((attention ? planted.qkv : planted.gate_up).outliers, ElementsAre(5, 40)) << name;
    const LayerWeights& other = (*weights)->layer(attention ? 0 : 1);
    EXPECT_THAT((attention ? other.qkv : other.gate_up).outliers, Not(ElementsAre(5, 40))) << name;
  }
}

TEST(OutliersTest, MeetTheWeightsOfTheirOwnColumns) {
  const auto weights = Load(OutlierSpec());
  ASSERT_TRUE(weights.ok()) << weights.status();
  const Projection& head = (*weights)->head();
  ASSERT_FALSE(head.outliers.empty());
  const kernels::PackedMatrix& part = head.parts[0];
  ASSERT_NE(part.outliers, nullptr);
  std::vector<float> row(static_cast<size_t>(part.cols));
  for (const int n : {0, 1, 33}) {
    kernels::UnpackRow(part, n, row.data());
    for (size_t j = 0; j < head.outliers.size(); ++j) {
      const size_t at = (static_cast<size_t>(n / kernels::kPanelRows) * head.outliers.size() + j) *
                            kernels::kPanelRows +
                        static_cast<size_t>(n % kernels::kPanelRows);
      EXPECT_EQ(part.outliers[at], tensor::FloatToHalf(row[static_cast<size_t>(head.outliers[j])]));
    }
  }
}

TEST(OutliersTest, AreNotLookedForWhereNothingIsQuantised) {
  for (const WeightMode mode : {WeightMode::kF32, WeightMode::kF16, WeightMode::kBf16}) {
    const auto weights = Load(OutlierSpec(), {.mode = mode});
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_THAT((*weights)->head().outliers, IsEmpty());
    EXPECT_EQ((*weights)->head().parts[0].outliers, nullptr);
  }
  const auto weights = Load(OutlierSpec(), {.keep_outliers = false});
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT((*weights)->head().outliers, IsEmpty());
}

}  // namespace
}  // namespace tutti::model
