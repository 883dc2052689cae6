// Products whose activations have outliers: columns that stay floats next to int8 blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "kernels/testing/gemm_test_support.h"
#include "tensor/dequantize.h"

namespace tutti::kernels {
namespace {

using tensor::DType;
using testing::AllKernels;
using testing::FileTensor;
using testing::PackOrDie;
using testing::QuantizedBuffer;
using testing::RandomFloats;
using testing::SameBits;

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kMXFP4, DType::kQ5_0,
                            DType::kQ5_1, DType::kQ6_K, DType::kQ8_0};
constexpr int32_t kCols = 256;
constexpr int32_t kColumns[kMaxOutliers] = {37, 255};

// A matrix and the weights that `outliers` of its inputs meet.
struct Weights {
  FileTensor file;
  OwnedMatrix packed;
  AlignedBuffer outliers;

  Weights(DType dtype, int32_t rows, std::span<const int32_t> columns)
      : file(dtype, rows, kCols, 11),
        packed(PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)))),
        outliers(
            AlignedBuffer::Allocate(OutlierBytes(packed.view, static_cast<int32_t>(columns.size())))
                .value()) {
    auto* to = reinterpret_cast<uint16_t*>(outliers.data());
    CopyOutliers(packed.view, columns, to);
    packed.view.outliers = to;
  }
};

// Rows whose values in kColumns are a hundred times as great as the others.
std::vector<float> RowsWithOutliers(int32_t rows) {
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * kCols), 21);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    for (const int32_t column : kColumns) x[row * kCols + static_cast<size_t>(column)] *= 100;
  }
  return x;
}

// x * weights as `kernels` computes it, of rows [begin, begin + rows) of x.
std::vector<float> Product(const GemmKernels& kernels, const Weights& weights,
                           const std::vector<float>& x, std::span<const int32_t> columns,
                           int32_t begin, int32_t rows, const float* norm = nullptr,
                           GemmPath path = GemmPath::kAuto) {
  QuantizedBuffer quantized(rows, kCols);
  quantized.rows.outliers = columns.data();
  quantized.rows.outlier_count = static_cast<int32_t>(columns.size());
  QuantizeArgs quantize;
  quantize.x = x.data() + begin * kCols;
  quantize.x_stride = kCols;
  quantize.norm_weight = norm;
  quantize.norm_eps = 1e-5f;
  quantize.out = quantized.rows;
  kernels.quantize(quantize, 0, rows);
  const AlignedBuffer scratch = AlignedBuffer::Allocate(GemmScratchBytes(rows, kCols)).value();
  std::vector<float> out(static_cast<size_t>(rows * weights.packed.view.rows));
  GemmArgs args;
  args.weight = weights.packed.view;
  args.x = quantized.rows;
  args.rows = rows;
  args.out = out.data();
  args.out_stride = static_cast<size_t>(weights.packed.view.rows);
  args.path = path;
  kernels.gemm(args, 0, PanelCount(args.weight), const_cast<std::byte*>(scratch.data()));
  return out;
}

// Root mean square of the differences from the product in float64.
double ErrorOf(const std::vector<float>& got, const Weights& weights, const std::vector<float>& x) {
  const int32_t n = weights.packed.view.rows;
  const auto rows = static_cast<int32_t>(got.size()) / n;
  std::vector<float> w(kCols);
  double squares = 0;
  for (int32_t i = 0; i < n; ++i) {
    UnpackRow(weights.packed.view, i, w.data());
    for (int32_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int32_t k = 0; k < kCols; ++k)
        sum += static_cast<double>(x[static_cast<size_t>(row * kCols + k)]) *
               w[static_cast<size_t>(k)];
      const double difference = sum - got[static_cast<size_t>(row * n + i)];
      squares += difference * difference;
    }
  }
  return std::sqrt(squares / static_cast<double>(got.size()));
}

TEST(GemmOutliers, TakeTheErrorOfTheirBlocksAway) {
  const std::vector<float> x = RowsWithOutliers(9);
  for (const DType dtype : kTypes) {
    const Weights weights(dtype, 70, kColumns);
    const double without = ErrorOf(Product(ScalarGemmKernels(), weights, x, {}, 0, 9), weights, x);
    const double with =
        ErrorOf(Product(ScalarGemmKernels(), weights, x, kColumns, 0, 9), weights, x);
    EXPECT_LT(with, 0.1 * without) << tensor::Name(dtype);
  }
}

TEST(GemmOutliers, GiveTheOraclesBitsOnEveryInstructionSet) {
  const std::vector<float> x = RowsWithOutliers(19);
  const std::vector<float> norm = RandomFloats(kCols, 3);
  for (const DType dtype : kTypes) {
    for (size_t count = 1; count <= std::size(kColumns); ++count) {
      const std::span<const int32_t> columns = std::span(kColumns).first(count);
      const Weights weights(dtype, 70, columns);
      for (const float* with_norm : {static_cast<const float*>(nullptr), norm.data()}) {
        const auto want = Product(ScalarGemmKernels(), weights, x, columns, 0, 19, with_norm);
        for (const GemmKernels* kernels : AllKernels()) {
          for (const GemmPath path : {GemmPath::kDirect, GemmPath::kUnpacked}) {
            const auto got = Product(*kernels, weights, x, columns, 0, 19, with_norm, path);
            EXPECT_TRUE(SameBits(got, want))
                << kernels->name << " " << tensor::Name(dtype) << " " << count;
          }
        }
      }
    }
  }
}

TEST(GemmOutliers, LeaveARowsBitsIndependentOfItsBatch) {
  const std::vector<float> x = RowsWithOutliers(19);
  for (const DType dtype : kTypes) {
    const Weights weights(dtype, 70, kColumns);
    for (const GemmKernels* kernels : AllKernels()) {
      const auto all = Product(*kernels, weights, x, kColumns, 0, 19);
      for (int32_t row = 0; row < 19; ++row) {
        const auto alone = Product(*kernels, weights, x, kColumns, row, 1);
        EXPECT_TRUE(
            std::equal(alone.begin(), alone.end(), all.begin() + row * weights.packed.view.rows))
            << kernels->name << " " << tensor::Name(dtype) << " row " << row;
      }
    }
  }
}

TEST(GemmOutliers, CarryNotANumberToTheOutput) {
  std::vector<float> x = RowsWithOutliers(1);
  x[static_cast<size_t>(kColumns[1])] = std::nanf("");
  const Weights weights(DType::kQ4_1, 32, kColumns);
  for (const GemmKernels* kernels : AllKernels()) {
    for (const float y : Product(*kernels, weights, x, kColumns, 0, 1))
      EXPECT_TRUE(std::isnan(y)) << kernels->name;
  }
}

}  // namespace
}  // namespace tutti::kernels
