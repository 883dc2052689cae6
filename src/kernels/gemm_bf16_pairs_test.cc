// Products of weights and activations in bfloat16 (WeightFormat::kBf16Pairs): every table that has
// them against the scalar one, to the bit, and that one against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

struct Matrix {
  FileTensor file;
  OwnedMatrix packed;

  Matrix(int32_t n, int32_t k, uint64_t seed, tensor::DType dtype = tensor::DType::kBF16)
      : file(dtype, n, k, seed),
        packed(PackOrDie(ConcatenateRows({file.view}, WeightFormat::kBf16Pairs))) {}
};

float Rounded(float x) { return tensor::BFloatToFloat(tensor::FloatToBFloat(x)); }

TEST(GemmBf16Pairs, IsThereForTheOracleAndWhereTheProcessorHasIt) {
  EXPECT_TRUE(ScalarGemmKernels().bf16_pairs);
  for (const Isa isa : DetectIsas()) {
    EXPECT_EQ(KernelsFor(isa).gemm.bf16_pairs,
              isa == Isa::kScalar || isa == Isa::kAvx512Bf16 || isa == Isa::kAmx)
        << IsaName(isa);
  }
}

TEST(GemmBf16Pairs, EveryTableGivesTheOraclesBits) {
  Random random(31);
  for (int round = 0; round < support::Amount(60, 20); ++round) {
    const auto n = static_cast<int32_t>(random.Between(1, 100));
    const auto k = static_cast<int32_t>(random.Between(1, 30)) * 32;
    const auto m = static_cast<int32_t>(random.Between(1, 70));
    const Matrix matrix(n, k, 100 + static_cast<uint64_t>(round));
    const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 200, 3.0f);
    for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_pairs)) {
      const std::vector<float> want = Product(OracleOf(*kernels), matrix.packed.view, x);
      for (const GemmPath path : {GemmPath::kAuto, GemmPath::kDirect, GemmPath::kUnpacked}) {
        EXPECT_TRUE(SameBits(Product(*kernels, matrix.packed.view, x, path), want))
            << kernels->name << " n=" << n << " k=" << k << " m=" << m;
      }
    }
  }
}

TEST(GemmBf16Pairs, OraclesEqualTheDefinitionWithinFloatRounding) {
  const int32_t n = 70, k = 320, m = 11;
  const Matrix matrix(n, k, 5);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 6, 2.0f);
  std::vector<float> row(static_cast<size_t>(k));
  for (const GemmKernels* oracle : {&ScalarGemmKernels(), &ScalarBf16TilesGemmKernels()}) {
    const std::vector<float> got = Product(*oracle, matrix.packed.view, x);
    for (int32_t i = 0; i < n; ++i) {
      tensor::DequantizeRow(tensor::DType::kBF16, matrix.file.view.row(i), row.data(), k);
      for (int32_t j = 0; j < m; ++j) {
        double want = 0, magnitude = 0;
        for (size_t c = 0; c < static_cast<size_t>(k); ++c) {
          const double product =
              static_cast<double>(Rounded(x[static_cast<size_t>(j * k) + c])) * row[c];
          want += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(got[static_cast<size_t>(j * matrix.packed.view.rows + i)], want,
                    1e-5 * magnitude)
            << oracle->name;
      }
    }
  }
}

// One row alone, in any company, and in any range of panels.
TEST(GemmBf16Pairs, ARowsBitsDependOnNothingElse) {
  const int32_t n = 96, k = 576;
  const Matrix matrix(n, k, 7);
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_pairs)) {
    const std::vector<float> x = RandomFloats(static_cast<size_t>(66 * k), 8);
    const std::vector<float> all = Product(*kernels, matrix.packed.view, x);
    for (const int32_t m : {1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33, 34, 49, 65}) {
      const std::vector<float> some = Product(
          *kernels, matrix.packed.view, {x.begin(), x.begin() + static_cast<ptrdiff_t>(m) * k});
      EXPECT_TRUE(SameBits(some, {all.begin(), all.begin() + static_cast<ptrdiff_t>(m) * n}))
          << kernels->name << " m=" << m;
    }
    Call call(*kernels, matrix.packed.view, x);
    for (int32_t panel = 0; panel < 3; ++panel) {
      kernels->gemm(call.args, panel, panel + 1, call.scratch.data());
    }
    EXPECT_TRUE(SameBits(call.out, all)) << kernels->name;
  }
}

// The gated epilogue writes what the next matrix reads, the norm comes before the rounding.
TEST(GemmBf16Pairs, RowsAreRoundedToNearestEvenBehindNormsAndGates) {
  const int32_t k = 64, m = 13;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 9, 4.0f);
  const std::vector<float> norm = RandomFloats(static_cast<size_t>(k), 10);
  const Matrix gate_up(128, k, 11);  // of 64 gates and 64 ups
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_pairs)) {
    testing::QuantizedBuffer rows(m, k, ScalePer::kNone);
    QuantizeArgs args;
    args.x = x.data();
    args.x_stride = static_cast<size_t>(k);
    args.norm_weight = norm.data();
    args.norm_eps = 1e-5f;
    args.out = rows.rows;
    kernels->quantize(args, 0, m);
    testing::QuantizedBuffer oracle(m, k, ScalePer::kNone);
    args.out = oracle.rows;
    ScalarGemmKernels().quantize(args, 0, m);
    EXPECT_EQ(std::memcmp(rows.rows.q, oracle.rows.q, static_cast<size_t>(m * k) * 2), 0);
    // The first tile has seven rows; its third row's first block.
    uint16_t first;
    std::memcpy(&first, oracle.rows.q + 2 * 64, sizeof first);
    double squares = 0;
    for (size_t c = 0; c < 64; ++c) squares += std::pow(x[2 * 64 + c], 2.0);
    const double want = x[2 * 64] / std::sqrt(squares / 64 + 1e-5) * norm[0];
    EXPECT_NEAR(tensor::BFloatToFloat(first), want, std::fabs(want) / 256);

    Call call(*kernels, gate_up.packed.view, x);
    testing::QuantizedBuffer gated(m, 64, ScalePer::kNone);
    std::vector<float> plain(static_cast<size_t>(m) * 64);
    call.args.epilogue = Epilogue::kSwiGlu;
    call.args.out = plain.data();
    call.args.out_stride = 64;
    call.args.quantized = gated.rows;
    call.Run();
    testing::QuantizedBuffer again(m, 64, ScalePer::kNone);
    testing::QuantizeAll(*kernels, plain.data(), again);
    EXPECT_EQ(std::memcmp(gated.rows.q, again.rows.q, static_cast<size_t>(m) * 64 * 2), 0);
  }
}

TEST(GemmBf16Pairs, RoundingKeepsInfinitiesAndNaNs) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(32, 0.0f);
  const std::vector<std::pair<float, uint16_t>> cases = {
      {1.0f, 0x3f80},         {1.00390625f, 0x3f80},  // half way, to even
      {1.01171875f, 0x3f82},                          // half way, to even: upwards
      {-1.00390637f, 0xbf81}, {inf, 0x7f80},         {-inf, 0xff80},
      {3.4e38f, 0x7f80},      {-0.0f, 0x8000},
  };
  for (size_t i = 0; i < cases.size(); ++i) x[i] = cases[i].first;
  x[20] = std::numeric_limits<float>::quiet_NaN();
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_pairs)) {
    testing::QuantizedBuffer out(1, 32, ScalePer::kNone);
    testing::QuantizeAll(*kernels, x.data(), out);
    std::vector<uint16_t> got(32);
    std::memcpy(got.data(), out.rows.q, 64);
    for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(got[i], cases[i].second) << i;
    EXPECT_TRUE(std::isnan(tensor::BFloatToFloat(got[20])));
  }
}

// Subnormal numbers count as zero in every table, independently of the processor's floating-point
// mode.
TEST(GemmBf16Pairs, SubnormalsAreZeroAndBadNumbersReachTheOutput) {
  const int32_t k = 64;
  std::vector<float> w(32 * 64, 1e-39f);
  for (size_t i = 32 * 16; i < w.size(); ++i) w[i] = 1e-20f;
  FileTensor file(tensor::DType::kF32, 32, k, 1);
  std::memcpy(file.bytes.data(), w.data(), w.size() * sizeof(float));
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kBf16Pairs));
  std::vector<float> x(static_cast<size_t>(3 * k), 1e-20f);  // products of 1e-40
  x[static_cast<size_t>(k)] = std::numeric_limits<float>::quiet_NaN();
  x[static_cast<size_t>(2 * k) + 3] = std::numeric_limits<float>::infinity();
  const std::vector<float> want = Product(ScalarGemmKernels(), packed.view, x);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(want[i], 0.0f);
    EXPECT_TRUE(std::isnan(want[32 + i]));
    // An infinity times a weight that counts as zero is no number.
    EXPECT_TRUE(i < 8 ? std::isnan(want[64 + i]) : std::isinf(want[64 + i])) << i;
  }
  for (const GemmKernels* kernels : KernelsWith(&GemmKernels::bf16_pairs)) {
    const std::vector<float> got = Product(*kernels, packed.view, x);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << kernels->name << " " << i;
      } else {
        EXPECT_EQ(got[i], want[i]) << kernels->name << " " << i;
      }
    }
  }
}

TEST(GemmBf16Pairs, PackingRoundsAndUnpackingGivesItBack) {
  for (const tensor::DType dtype :
       {tensor::DType::kF32, tensor::DType::kF16, tensor::DType::kBF16, tensor::DType::kQ4_1}) {
    const int32_t n = 45, k = 96;
    const Matrix matrix(n, k, 12, dtype);
    EXPECT_EQ(PackedBytes(matrix.packed.view), size_t{64} * 96 * 2);
    std::vector<float> row(static_cast<size_t>(k)), got(static_cast<size_t>(k));
    for (int32_t i = 0; i < n; ++i) {
      tensor::DequantizeRow(dtype, matrix.file.view.row(i), row.data(), k);
      UnpackRow(matrix.packed.view, i, got.data());
      for (size_t c = 0; c < got.size(); ++c) ASSERT_EQ(got[c], Rounded(row[c])) << i << " " << c;
    }
  }
  FileTensor bad(tensor::DType::kBF16, 32, 32, 1);
  const uint16_t infinite = 0x7f80;
  std::memcpy(bad.bytes.data() + 6, &infinite, sizeof infinite);
  EXPECT_EQ(PackMatrix(ConcatenateRows({bad.view}, WeightFormat::kBf16Pairs)).status().reason(),
            "model_nonfinite");
}

}  // namespace
}  // namespace tutti::kernels
