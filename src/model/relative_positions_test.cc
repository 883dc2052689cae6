// Rows and tables of distances compared with their definition.
#include "model/relative_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "files/source.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"

namespace tutti::model {
namespace {

// Each distance up to half of the buckets has a row of its own, the farthest one the last, and no
// row is passed over by a farther token.
TEST(RelativePositions, RowsOfDistancesAscendAndEndAtTheFarthest) {
  const EncoderConfig::Relative buckets = {256, 256, 512}, exact = {100, 0, 100};
  EXPECT_EQ(RelativeRow(buckets, 0), 256);
  EXPECT_EQ(RelativeRow(buckets, 128), 384);
  EXPECT_EQ(RelativeRow(buckets, 130), 386);  // transformers 4.57.6, as the next two
  EXPECT_EQ(RelativeRow(buckets, 200), 425);
  EXPECT_EQ(RelativeRow(buckets, -300), 256 - 207);
  EXPECT_EQ(RelativeRow(buckets, 511), 511);
  EXPECT_EQ(RelativeRow(buckets, -511), 1);
  EXPECT_EQ(RelativeRow(exact, 99), 199);
  EXPECT_EQ(RelativeRow(exact, -100), 0);
  for (const EncoderConfig::Relative& relative : {buckets, exact}) {
    for (int distance = -700; distance < 700; ++distance)
      EXPECT_LE(RelativeRow(relative, distance), RelativeRow(relative, distance + 1)) << distance;
    EXPECT_EQ(RelativeRow(relative, relative.farthest), 2 * relative.span - 1);
    EXPECT_EQ(RelativeRow(relative, -relative.farthest), 0);
  }
}

constexpr int kWidth = 32;

EncoderConfig SmallConfig() {
  EncoderConfig config;
  config.layers = 1;
  config.width = kWidth;
  config.heads = 2;
  config.positions = 20;
  config.norm_eps = 1e-7F;
  config.relative = {.span = 8, .buckets = 8, .farthest = 12, .keys = true, .norm = true};
  return config;
}

// A file with embeddings, a norm and one layer's projection to keys.
class RelativeTables : public ::testing::Test {
 protected:
  RelativeTables() {
    Random random(5);
    Add("embeddings", {16, kWidth}, random);
    Add("norm.weight", {kWidth}, random);
    Add("norm.bias", {kWidth}, random);
    Add("k.weight", {kWidth, kWidth}, random);
    Add("k.bias", {kWidth}, random);
  }

  void Add(const std::string& name, std::vector<uint64_t> shape, Random& random) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.Uniform()) * 2 - 1;
    shapes_.push_back(std::move(shape));
    names_.push_back(name);
    values_.push_back(std::move(values));
  }

  Result<std::shared_ptr<const RelativePositions>> Make() {
    safetensors::testing::Writer writer;
    for (size_t i = 0; i < names_.size(); ++i) writer.Floats(names_[i], shapes_[i], values_[i]);
    bytes_ = writer.Build();
    auto file = safetensors::File::FromSource(files::MemorySource(bytes_, "st_offsets"));
    EXPECT_TRUE(file.ok()) << file.status();
    store_ = MakeTensorStore(safetensors::Checkpoint::Of(*file));
    RelativeTensors tensors;
    tensors.embeddings = store_->Find("embeddings");
    tensors.norm_weight = store_->Find("norm.weight");
    tensors.norm_bias = store_->Find("norm.bias");
    tensors.layers.resize(1);
    tensors.layers[0].keys = {store_->Find("k.weight"), store_->Find("k.bias")};
    return RelativePositions::Make(SmallConfig(), tensors, *store_,
                                   kernels::KernelsFor(kernels::Isa::kScalar));
  }

  // Dim `dim` of the key of a row of embeddings.
  double Expected(int row, size_t dim) const {
    const float* x = values_[0].data() + static_cast<size_t>(row) * kWidth;
    double mean = 0, variance = 0, sum = values_[4][dim];
    for (size_t i = 0; i < kWidth; ++i) mean += double{x[i]} / kWidth;
    for (size_t i = 0; i < kWidth; ++i) variance += (x[i] - mean) * (x[i] - mean) / kWidth;
    for (size_t i = 0; i < kWidth; ++i) {
      const double normed =
          (x[i] - mean) / std::sqrt(variance + 1e-7) * values_[1][i] + values_[2][i];
      sum += normed * values_[3][dim * kWidth + i];
    }
    return sum;
  }

  std::vector<std::string> names_;
  std::vector<std::vector<uint64_t>> shapes_;
  std::vector<std::vector<float>> values_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<TensorStore> store_;
};

TEST_F(RelativeTables, HoldAKeyForEachDistanceAndNoQueryWithoutThatTerm) {
  const auto made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const kernels::SpanRelative layer = (*made)->layer(0);
  EXPECT_EQ(layer.farthest, 12);
  const int beyond = layer.farthest + kernels::kSpanTileRows;
  for (int distance = -beyond; distance <= beyond; ++distance) {
    const int row = RelativeRow(SmallConfig().relative, std::clamp(distance, -12, 12));
    for (size_t dim = 0; dim < kWidth; dim += 5) {
      const auto at = static_cast<std::ptrdiff_t>(dim * layer.stride) + distance;
      ASSERT_NEAR(layer.keys[at], Expected(row, dim), 1e-5) << distance << " " << dim;
      ASSERT_EQ(layer.queries[at], 0);
    }
  }
}

TEST_F(RelativeTables, RejectValuesThatAreNotFinite) {
  for (size_t i = 0; i < names_.size(); ++i) {
    const float kept = values_[i][7];
    values_[i][7] = i % 2 == 0 ? std::nanf("") : std::numeric_limits<float>::infinity();
    const Status status = Make().status();
    EXPECT_EQ(status.reason(), "model_nonfinite");
    EXPECT_THAT(status.message(), ::testing::HasSubstr(names_[i]));
    values_[i][7] = kept;
  }
}

}  // namespace
}  // namespace tutti::model
