// Keys of an int8 cache are transformed with their queries (cpu/attention_hadamard.inc).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/testing/attention_test_rig.h"

namespace tutti::kernels::testing {
namespace {

// A row of one query head, one key head and one value head, before and after rope_append.
struct Row {
  std::vector<float> before, after;
};

Row Append(const AttentionKernels& kernels, KvFormat format, int32_t head_dim, Row row) {
  const AttentionShape shape = {1, 1, head_dim, 1.0F, RopeMode::kNone, 0};
  const KvLayout layout = MakeKvLayout(format, 1, head_dim);
  const AlignedArray<std::byte> pool = MakeAligned<std::byte>(layout.layer_bytes);
  const RowPlace place = {0, 0};
  row.after = row.before;
  kernels.rope_append({shape,
                       layout,
                       {pool.get(), layout.layer_bytes, layout.head_bytes},
                       row.after.data(),
                       row.after.size(),
                       &place,
                       nullptr},
                      0, 1);
  return row;
}

double Product(const std::vector<float>& row) {
  double sum = 0;
  const size_t head_dim = row.size() / 3;
  for (size_t d = 0; d < head_dim; ++d) sum += double{row[d]} * double{row[head_dim + d]};
  return sum;
}

class HadamardTest : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(All, HadamardTest, ::testing::ValuesIn(Variants()),
                         [](const auto& test) { return test.param.Name(); });

TEST_P(HadamardTest, ProductsOfQueriesAndKeysStay) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int32_t head_dim = 16; head_dim <= kMaxHeadDim; head_dim += 16) {
    Row row;
    row.before.resize(static_cast<size_t>(head_dim) * 3);
    std::ranges::generate(row.before, [&] { return normal(random); });
    row = Append(*GetParam().kernels, GetParam().format, head_dim, std::move(row));
    EXPECT_NEAR(Product(row.after), Product(row.before), 1e-4 * head_dim) << head_dim;
    EXPECT_EQ(row.after != row.before, GetParam().format == KvFormat::kI8) << head_dim;
    EXPECT_TRUE(
        std::equal(row.before.end() - head_dim, row.before.end(), row.after.end() - head_dim))
        << "values are not transformed";
  }
}

TEST_P(HadamardTest, OneGreatChannelIsSpreadOverItsRun) {
  for (const int32_t head_dim : {16, 48, 64, 80, 96, 128, 192, 256, 512}) {
    const int32_t run = GetParam().format == KvFormat::kI8 ? head_dim & -head_dim : 1;
    for (int32_t channel = 0; channel < head_dim; ++channel) {
      Row row;
      row.before.resize(static_cast<size_t>(head_dim) * 3);
      row.before[static_cast<size_t>(head_dim + channel)] = 3;
      row = Append(*GetParam().kernels, GetParam().format, head_dim, std::move(row));
      for (int32_t d = 0; d < head_dim; ++d) {
        EXPECT_EQ(std::fabs(row.after[static_cast<size_t>(head_dim + d)]),
                  d / run == channel / run ? 3 : 0)
            << head_dim << ": channel " << channel << " in " << d;
      }
    }
  }
}

// As models have them: two channels of keys ten times as great as the others, whose queries are
// small. Rounded as they are, all others would lose three bits.
TEST_P(HadamardTest, GreatChannelsOfKeysDoNotCoarsenTheOthers) {
  const AttentionShape shape = {4, 2, 64, 0.125F, RopeMode::kHalf, 64};
  Rig rig(GetParam(), shape, 8, 3);
  const size_t s = rig.AddSequence(200);
  const size_t width = 8 * 64;
  for (size_t t = 0; t < 200; ++t) {
    for (size_t head = 0; head < 6; ++head) {
      float* x = rig[s].qkv.data() + t * width + head * 64;
      const float factor = head < 4 ? 0.1F : 10.0F;
      for (const size_t channel : {20, 52}) x[channel] *= factor;
    }
  }
  rig.Run(s, 50);
  double worst = 0;
  for (const int32_t position : {20, 63, 100, 199}) {
    worst = std::max(
        worst, RelativeError(rig.Reference(rig[s], position),
                             rig[s].out.data() + size_t{256} * static_cast<size_t>(position)));
  }
  EXPECT_LT(worst, GetParam().format == KvFormat::kI8 ? 0.02 : 0.002);
}

}  // namespace
}  // namespace tutti::kernels::testing
