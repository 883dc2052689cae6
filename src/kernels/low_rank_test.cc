#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/testing/gemm_test_support.h"
#include "tensor/blocks.h"

namespace tutti::kernels {
namespace {

using testing::RandomFloats;
using testing::SameBits;

float Widen(LowRankType type, uint16_t bits) {
  if (type == LowRankType::kF16) return tensor::HalfToFloat(bits);
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// A matrix [inner][columns] in panels, and its values as floats.
struct Matrix {
  LowRankType type;
  int32_t inner, columns;
  std::vector<std::byte> memory;
  std::vector<float> values;

  Matrix(LowRankType value_type, int32_t k, int32_t n)
      : type(value_type), inner(k), columns(n), values(static_cast<size_t>(k * n)) {
    const auto stored = static_cast<size_t>(LowRankPanels(n) * k * kLowRankPanel);
    memory.resize(stored * LowRankBytes(type));
    const std::vector<float> random = RandomFloats(values.size(), 11);
    for (int32_t at = 0; at < k * n; ++at) {
      const int32_t row = at / n, column = at % n;
      const auto i = static_cast<size_t>((column / kLowRankPanel * k + row) * kLowRankPanel +
                                         column % kLowRankPanel);
      float value = random[static_cast<size_t>(at)];
      if (type == LowRankType::kF32) {
        std::memcpy(&memory[i * sizeof value], &value, sizeof value);
      } else {
        // Any bits are a value; those of small random numbers keep the exponents moderate.
        uint32_t wide;
        std::memcpy(&wide, &value, sizeof wide);
        const auto bits = static_cast<uint16_t>(
            type == LowRankType::kBf16 ? wide >> 16 : tensor::FloatToHalf(value));
        std::memcpy(&memory[i * sizeof bits], &bits, sizeof bits);
        value = Widen(type, bits);
      }
      values[static_cast<size_t>(at)] = value;
    }
  }
};

// `rows` rows of `x` times the matrix, over what `out` holds.
std::vector<float> Product(const RowKernels& kernels, const Matrix& matrix,
                           const std::vector<float>& x, std::vector<float> out, int32_t step,
                           bool add, int32_t split = 0) {
  const auto rows = static_cast<int32_t>(x.size()) / matrix.inner;
  std::vector<const float*> from;
  std::vector<float*> to;
  const size_t stride = out.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    from.push_back(x.data() + row * static_cast<size_t>(matrix.inner));
    to.push_back(out.data() + row * stride);
  }
  LowRankArgs args;
  args.weight = matrix.memory.data();
  args.type = matrix.type;
  args.inner = matrix.inner;
  args.columns = matrix.columns;
  args.x = from.data();
  args.out = to.data();
  args.rows = rows;
  args.out_step = step;
  args.scale = 0.37f;
  args.add = add;
  kernels.low_rank(args, 0, split);
  kernels.low_rank(args, split, LowRankPanels(matrix.columns));
  return out;
}

class LowRankTest : public ::testing::TestWithParam<Isa> {
 protected:
  const RowKernels& rows() const { return KernelsFor(GetParam()).rows; }
};
INSTANTIATE_TEST_SUITE_P(All, LowRankTest, ::testing::ValuesIn(DetectIsas()),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

constexpr LowRankType kTypes[] = {LowRankType::kF32, LowRankType::kF16, LowRankType::kBf16};

TEST_P(LowRankTest, IsTheDefinitionAndTheBitsOfTheScalarTable) {
  for (const LowRankType type : kTypes) {
    for (const int32_t inner : {1, 5, 16, 48, 256}) {
      for (const int32_t columns : {1, 8, 15, 16, 17, 64, 72, 200}) {
        const Matrix matrix(type, inner, columns);
        for (const int32_t count : {1, 2, 3, 4, 7}) {
          const std::vector<float> x = RandomFloats(static_cast<size_t>(count * inner), 5);
          const std::vector<float> before =
              RandomFloats(static_cast<size_t>(count * columns), 6, 2.0f);
          for (const bool add : {false, true}) {
            const std::vector<float> got = Product(rows(), matrix, x, before, 16, add);
            ASSERT_TRUE(SameBits(got, Product(ScalarRowKernels(), matrix, x, before, 16, add, 1)))
                << inner << " x " << columns << ", rows " << count;
            for (size_t i = 0; i < got.size(); ++i) {
              const size_t row = i / static_cast<size_t>(columns);
              const size_t column = i % static_cast<size_t>(columns);
              double sum = 0;
              for (size_t k = 0; k < static_cast<size_t>(inner); ++k) {
                sum +=
                    static_cast<double>(x[row * static_cast<size_t>(inner) + k]) *
                    static_cast<double>(matrix.values[k * static_cast<size_t>(columns) + column]);
              }
              const double want = 0.37 * sum + (add ? static_cast<double>(before[i]) : 0.0);
              ASSERT_NEAR(got[i], want, 1e-4);
            }
          }
        }
      }
    }
  }
}

TEST_P(LowRankTest, ARowHasTheSameBitsInEveryBatch) {
  const Matrix matrix(LowRankType::kBf16, 24, 80);
  const std::vector<float> x = RandomFloats(9 * 24, 3);
  const std::vector<float> all = Product(rows(), matrix, x, std::vector<float>(9 * 80), 16, false);
  for (ptrdiff_t row = 0; row < 9; ++row) {
    const std::vector<float> one(x.begin() + row * 24, x.begin() + (row + 1) * 24);
    const std::vector<float> alone =
        Product(rows(), matrix, one, std::vector<float>(80), 16, false);
    ASSERT_TRUE(SameBits(alone, {all.begin() + row * 80, all.begin() + (row + 1) * 80})) << row;
  }
}

// Gate and up lie interleaved by 16 columns; what lies between the panels stays.
TEST_P(LowRankTest, WritesPanelsApart) {
  const Matrix matrix(LowRankType::kF32, 8, 48);
  const std::vector<float> x = RandomFloats(2 * 8, 3);
  const std::vector<float> dense =
      Product(rows(), matrix, x, std::vector<float>(2 * 48), 16, false);
  const std::vector<float> apart =
      Product(rows(), matrix, x, std::vector<float>(2 * 96, 9.0f), 32, false);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < 96; ++i) {
      const float want = i % 32 < 16 ? dense[row * 48 + i / 32 * 16 + i % 32] : 9.0f;
      ASSERT_EQ(apart[row * 96 + i], want) << i;
    }
  }
}

}  // namespace
}  // namespace tutti::kernels
