// Products of weights with a scale per block and activations in bfloat16 (PackedMatrix::in_bf16):
// every table that has them against the scalar one, to the bit, and that one against the
// definition.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "amount.h"
#include "base/random.h"
#include "kernels/kernels.h"
#include "kernels/testing/gemm_test_support.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"

namespace tutti::kernels {
namespace {

using testing::Call;
using testing::FileTensor;
using testing::KernelsWith;
using testing::PackOrDie;
using testing::Product;
using testing::RandomFloats;
using testing::SameBits;

constexpr tensor::DType kTypes[] = {
    tensor::DType::kQ4_0, tensor::DType::kQ4_1, tensor::DType::kMXFP4, tensor::DType::kQ5_0,
    tensor::DType::kQ5_1, tensor::DType::kQ6_K, tensor::DType::kQ8_0};

struct Matrix {
  FileTensor file;
  OwnedMatrix packed;

  Matrix(tensor::DType dtype, int32_t n, int32_t k, uint64_t seed)
      : file(dtype, n, k, seed),
        packed(PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)))) {
    packed.view.in_bf16 = true;
  }
};

TEST(GemmBf16Blocks, TypesOfTheTestHaveAllFormatsWithScalesPerBlock) {
  std::vector<WeightFormat> formats;
  for (const tensor::DType dtype : kTypes) formats.push_back(NativeFormat(dtype));
  for (int i = 0; HasBlockScales(static_cast<WeightFormat>(i)); ++i)
    EXPECT_EQ(formats.at(static_cast<size_t>(i)), static_cast<WeightFormat>(i));
  EXPECT_FALSE(HasBlockScales(WeightFormat::kI8Row));
}

TEST(GemmBf16Blocks, EveryTableGivesTheOraclesBits) {
  Random random(41);
  for (int round = 0; round < support::Amount(36, 12); ++round) {
    const tensor::DType dtype = kTypes[static_cast<size_t>(round) % std::size(kTypes)];
    const auto n = static_cast<int32_t>(random.Between(1, 70));
    // A chunk of unpacked weights has 4,096 of k.
    const auto k = static_cast<int32_t>(round % 12 == 5 ? 18 : random.Between(1, 3)) * 256;
    const auto m = static_cast<int32_t>(random.Between(1, 70));
    const Matrix matrix(dtype, n, k, 100 + static_cast<uint64_t>(round));
    const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 200, 3.0f);
    const std::vector<float> want = Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, x);
    for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
      for (const GemmPath path : {GemmPath::kAuto, GemmPath::kDirect, GemmPath::kUnpacked}) {
        EXPECT_TRUE(SameBits(Product(*kernels, matrix.packed.view, x, path), want))
            << kernels->name << " " << WeightFormatName(matrix.packed.view.format) << " n=" << n
            << " k=" << k << " m=" << m << " path=" << static_cast<int>(path);
      }
    }
  }
}

// Chunks of k whose sums are continued, with few rows: the scalar table is slow.
TEST(GemmBf16Blocks, SumsOfManyChunksAreContinued) {
  const int32_t n = 40, k = 256 * 35;
  for (const tensor::DType dtype : {tensor::DType::kQ4_1, tensor::DType::kQ6_K}) {
    const Matrix matrix(dtype, n, k, 3);
    for (const int32_t m : {1, 18}) {
      const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 4);
      const std::vector<float> want = Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, x);
      for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
        for (const GemmPath path : {GemmPath::kDirect, GemmPath::kUnpacked})
          EXPECT_TRUE(SameBits(Product(*kernels, matrix.packed.view, x, path), want))
              << kernels->name;
      }
    }
  }
}

// Eleven panels are two groups, whose sums share one place; 34 rows are two tiles.
TEST(GemmBf16Blocks, GroupsOfPanelsContinueTheirOwnSums) {
  const int32_t n = 11 * kPanelRows, k = 256 * 3, m = 34;
  ASSERT_GT(k, 2 * kChunkBlocksBf16 * kQuantBlock);
  ASSERT_LT(PanelsInGroup(m), n / kPanelRows);
  for (const tensor::DType dtype : {tensor::DType::kQ4_0, tensor::DType::kQ8_0}) {
    const Matrix matrix(dtype, n, k, 3);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 4);
    const std::vector<float> want = Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, x);
    for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
      EXPECT_TRUE(SameBits(Product(*kernels, matrix.packed.view, x, GemmPath::kUnpacked), want))
          << kernels->name;
    }
  }
}

TEST(GemmBf16Blocks, ActivationsPastTheSecondCacheAreMultipliedInGroups) {
  const int32_t n = 10 * kPanelRows, k = 256 * 96, m = 33;
  ASSERT_FALSE(StaysInSecondCache(m, k));
  const Matrix matrix(tensor::DType::kQ4_1, n, k, 3);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 4);
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
    EXPECT_TRUE(SameBits(Product(*kernels, matrix.packed.view, x, GemmPath::kAuto),
                         Product(*kernels, matrix.packed.view, x, GemmPath::kDirect)))
        << kernels->name;
  }
}

TEST(GemmBf16Blocks, ScratchHoldsTheSumsOfEveryGroup) {
  const int32_t cols = 64;
  for (const int32_t most : {1, 33, 511, 512, 600, 4095, 4096, 9000}) {
    const size_t bytes = GemmScratchBytes(most, cols);
    for (int32_t rows = 1; rows <= most; rows += 1 + rows / 9) {
      const GemmScratch scratch = CarveGemmScratch(nullptr, rows, cols);
      const auto floats = static_cast<size_t>(scratch.gated - scratch.rows);
      EXPECT_GE(floats, static_cast<size_t>(PanelsInGroup(rows) * (rows + kUnitTile)) * kPanelRows);
      EXPECT_LE(reinterpret_cast<uintptr_t>(scratch.scales), bytes) << rows << " of " << most;
    }
  }
}

// Each weight is off by at most one step of bfloat16, and not in one direction: the mean error of
// many equal products is far less than half a step (0.3 %).
TEST(GemmBf16Blocks, TheOracleEqualsTheDefinitionWithinTheRoundingOfWeights) {
  const int32_t n = 70, k = 512, m = 5;
  for (const tensor::DType dtype : kTypes) {
    const Matrix matrix(dtype, n, k, 5);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 6, 2.0f);
    const std::vector<float> got = Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, x);
    std::vector<float> row(static_cast<size_t>(k));
    double ratio = 0;
    for (int32_t i = 0; i < n; ++i) {
      UnpackRow(matrix.packed.view, i, row.data());
      for (int32_t j = 0; j < m; ++j) {
        double want = 0, magnitude = 0;
        for (size_t c = 0; c < static_cast<size_t>(k); ++c) {
          const float rounded =
              tensor::BFloatToFloat(tensor::FloatToBFloat(x[static_cast<size_t>(j * k) + c]));
          want += static_cast<double>(rounded) * row[c];
          magnitude += std::fabs(static_cast<double>(rounded) * row[c]);
        }
        const double off = got[static_cast<size_t>(j * matrix.packed.view.rows + i)] - want;
        ASSERT_NEAR(off, 0, magnitude / 128) << WeightFormatName(matrix.packed.view.format);
      }
      // The weights alone: activations that pick one of them, all of the same sign.
      std::vector<float> signs(static_cast<size_t>(k));
      double sum = 0;
      for (size_t c = 0; c < signs.size(); ++c) {
        signs[c] = row[c] < 0 ? -1.0f : 1.0f;
        sum += std::fabs(row[c]);
      }
      const std::vector<float> sums =
          Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, signs);
      ratio += sums[static_cast<size_t>(i)] / sum / n;
    }
    EXPECT_NEAR(ratio, 1, 0.001) << WeightFormatName(matrix.packed.view.format);
  }
}

// One row alone, in any company, and in any range of panels.
TEST(GemmBf16Blocks, ARowsBitsDependOnNothingElse) {
  const int32_t n = 96, k = 512;
  for (const tensor::DType dtype : kTypes) {
    const Matrix matrix(dtype, n, k, 7);
    for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
      const std::vector<float> x = RandomFloats(static_cast<size_t>(66 * k), 8);
      const std::vector<float> all = Product(*kernels, matrix.packed.view, x);
      for (const int32_t m : {1, 2, 5, 8, 16, 17, 31, 32, 33, 34, 49, 65}) {
        const std::vector<float> some = Product(
            *kernels, matrix.packed.view, {x.begin(), x.begin() + static_cast<ptrdiff_t>(m) * k});
        EXPECT_TRUE(SameBits(some, {all.begin(), all.begin() + static_cast<ptrdiff_t>(m) * n}))
            << kernels->name << " m=" << m;
      }
      Call call(*kernels, matrix.packed.view, x);
      for (int32_t panel = 0; panel < 3; ++panel)
        kernels->gemm(call.args, panel, panel + 1, call.scratch.data());
      EXPECT_TRUE(SameBits(call.out, all)) << kernels->name;
    }
  }
}

// Extreme scales: the greatest fp16, the least, and none.
TEST(GemmBf16Blocks, WeightsBeyondTheRangeStayFinite) {
  const int32_t k = 32;
  FileTensor file(tensor::DType::kQ8_0, 32, k, 1);
  const uint16_t scales[] = {0x7bff, 0x0001, 0x0000, 0x3c00, 0xbc00};
  for (size_t row = 0; row < 32; ++row) {
    auto* block = reinterpret_cast<tensor::BlockQ8_0*>(file.bytes.data()) + row;
    block->d = scales[row % 5];
    for (int8_t& q : block->qs) q = 100;
  }
  Matrix matrix(tensor::DType::kQ8_0, 32, k, 1);
  matrix.packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kQ8_0));
  matrix.packed.view.in_bf16 = true;
  std::vector<float> x(static_cast<size_t>(k), 0.0f);
  x[3] = 1.0f;
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_tiles)) {
    const std::vector<float> got = Product(*kernels, matrix.packed.view, x);
    EXPECT_NEAR(got[0], 200, 1) << kernels->name << ": with the greatest scale of this format";
    EXPECT_NEAR(got[1], 100.0f * 0x1p-24f, 3e-7) << kernels->name;
    EXPECT_NEAR(got[2], 0, 3e-7) << kernels->name;
    EXPECT_NEAR(got[3], 100, 0.5) << kernels->name;
    EXPECT_NEAR(got[4], -100, 0.5) << kernels->name;
    EXPECT_TRUE(SameBits(got, Product(ScalarBf16TilesGemmKernels(), matrix.packed.view, x)));
  }
}

}  // namespace
}  // namespace tutti::kernels
