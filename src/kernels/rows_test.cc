#include "kernels/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"
#include "kernels/rows_rope.h"

namespace tutti::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

class RowsTest : public ::testing::TestWithParam<Isa> {
 protected:
  const RowKernels& rows() const { return KernelsFor(GetParam()).rows; }
};
INSTANTIATE_TEST_SUITE_P(All, RowsTest, ::testing::ValuesIn(DetectIsas()),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

std::vector<float> RandomRow(Random& random, size_t n, double spread) {
  std::vector<float> x(n);
  for (float& v : x)
    v = static_cast<float>((random.Uniform() + random.Uniform() + random.Uniform() - 1.5) * spread);
  return x;
}

// Every length up to three vectors and a few longer ones: all tails.
std::vector<int32_t> Lengths() {
  std::vector<int32_t> lengths = {63, 64, 65, 127, 128, 129, 576, 1000, 4095, 4096, 4097, 49152};
  for (int32_t n = 1; n <= 50; ++n) lengths.push_back(n);
  return lengths;
}

TEST_P(RowsTest, RmsNormIsTheDefinition) {
  Random random(1);
  for (int32_t n : Lengths()) {
    const std::vector<float> x = RandomRow(random, static_cast<size_t>(n), 4);
    const std::vector<float> w = RandomRow(random, static_cast<size_t>(n), 2);
    double sum = 0;
    for (float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
    const double scale = 1 / std::sqrt(sum / n + 1e-5);
    std::vector<float> out = x;  // in place
    rows().rms_norm(out.data(), w.data(), 1e-5f, n, out.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = static_cast<double>(x[i]) * scale * static_cast<double>(w[i]);
      ASSERT_NEAR(out[i], expected, 1e-5 * std::abs(expected) + 1e-30) << n << " at " << i;
    }
  }
}

// The definition in float64 over the float sums, with a mean of up to thousands of deviations.
TEST_P(RowsTest, LayerNormIsTheDefinition) {
  Random random(7);
  for (int32_t n : Lengths()) {
    for (double offset : {0.0, 3.0, 1000.0}) {
      const size_t width = static_cast<size_t>(n);
      std::vector<float> x = RandomRow(random, width, 2);
      for (float& v : x) v += static_cast<float>(offset);
      const std::vector<float> residual = RandomRow(random, width, 1);
      const std::vector<float> weight = RandomRow(random, width, 2);
      const std::vector<float> bias = RandomRow(random, width, 1);
      for (bool with_residual : {false, true}) {
        std::vector<float> s = x;
        for (size_t i = 0; with_residual && i < width; ++i) s[i] += residual[i];
        double mean = 0;
        for (float v : s) mean += static_cast<double>(v) / n;
        double variance = 0;
        for (float v : s) variance += (v - mean) * (v - mean) / n;
        const double scale = 1 / std::sqrt(variance + 1e-5);
        std::vector<float> out(width + 1, 5.5f);
        rows().layer_norm(x.data(), with_residual ? residual.data() : nullptr, weight.data(),
                          bias.data(), 1e-5f, n, out.data());
        // Possible rounding error of the mean and of s - mean, in deviations.
        const double each = 1e-6 * (1 + (std::abs(mean) + 4) * scale);
        for (size_t i = 0; i < width; ++i) {
          const double normed = (s[i] - mean) * scale;
          const double w = weight[i];
          ASSERT_NEAR(out[i], normed * w + static_cast<double>(bias[i]),
                      each * (std::abs(normed) + 1) * (std::abs(w) + 1e-1) + 1e-7)
              << n << " at " << i << " mean " << mean;
        }
        ASSERT_EQ(out[width], 5.5f);  // nothing beyond the row
        std::vector<float> in_place = with_residual ? residual : x;
        rows().layer_norm(x.data(), with_residual ? in_place.data() : nullptr, weight.data(),
                          bias.data(), 1e-5f, n, in_place.data());
        out.resize(width);
        ASSERT_EQ(in_place, out);
      }
    }
  }
}

TEST_P(RowsTest, LayerNormOfEqualValuesIsTheBiasAndNotANumberSpreads) {
  const size_t n = 100;
  std::vector<float> x(n, 0.7f);
  const std::vector<float> weight(n, 3.0f);
  std::vector<float> bias(n);
  for (size_t i = 0; i < n; ++i) bias[i] = static_cast<float>(i);
  std::vector<float> out(n);
  const int32_t width = static_cast<int32_t>(n);
  rows().layer_norm(x.data(), nullptr, weight.data(), bias.data(), 1e-12f, width, out.data());
  // A mean off by a unit in the last place of 0.7 is all there is, for sqrt(eps) = 1e-6.
  for (size_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], bias[i], 3 * 6e-8 / 1e-6 * 1.01);
  x[98] = kNan;
  rows().layer_norm(x.data(), nullptr, weight.data(), bias.data(), 1e-12f, width, out.data());
  for (float v : out) EXPECT_TRUE(std::isnan(v));
}

TEST_P(RowsTest, AddMultiplyAndSiluMulAreTheirDefinitions) {
  Random random(2);
  for (int32_t n : Lengths()) {
    const std::vector<float> x = RandomRow(random, static_cast<size_t>(n), 20);
    const std::vector<float> y = RandomRow(random, static_cast<size_t>(n), 3);
    std::vector<float> sum = x;
    rows().add(sum.data(), y.data(), n);
    std::vector<float> multiplied = x;  // out may be either
    rows().multiply(multiplied.data(), y.data(), n, multiplied.data());
    std::vector<float> product = y;  // out may be up
    rows().silu_mul(x.data(), product.data(), n, product.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(sum[i], x[i] + y[i]);
      ASSERT_EQ(multiplied[i], x[i] * y[i]);
      const double g = x[i];
      const double expected = g / (1 + std::exp(-g)) * static_cast<double>(y[i]);
      ASSERT_NEAR(product[i], expected, 1e-6 * std::abs(expected) + 1e-37)
          << n << " at " << i << " gate " << g;
    }
  }
}

TEST_P(RowsTest, SiluOfGreatMagnitudesHasItsLimits) {
  const std::vector<float> gate = {-1000, -200, -100, 100, 1000, 0};
  const std::vector<float> up(gate.size(), 2.0f);
  std::vector<float> out(gate.size());
  rows().silu_mul(gate.data(), up.data(), static_cast<int32_t>(gate.size()), out.data());
  EXPECT_THAT(
      out, ::testing::Pointwise(::testing::FloatNear(1e-35f), {0.f, 0.f, 0.f, 200.f, 2000.f, 0.f}));
}

TEST_P(RowsTest, ArgmaxPrefersTheLowestIdAndIgnoresNotANumbers) {
  Random random(3);
  for (int32_t n : Lengths()) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(random.Below(20)) - 30.0f;  // many ties, all negative
    const auto best = std::max_element(x.begin(), x.end());
    ASSERT_EQ(rows().argmax(x.data(), n), best - x.begin());
    const float greatest = *best;
    for (float& v : x) {
      if (random.Chance(0.3) && v < greatest) v = kNan;
    }
    ASSERT_EQ(x[static_cast<size_t>(rows().argmax(x.data(), n))], greatest) << n;
  }
  const std::vector<float> nothing(37, kNan);
  EXPECT_EQ(rows().argmax(nothing.data(), 37), 0);
  const std::vector<float> masked(37, -kInf);
  EXPECT_EQ(rows().argmax(masked.data(), 37), 0);
}

TEST_P(RowsTest, ARowGivesTheSameBitsWhereverItLies) {
  Random random(6);
  const std::vector<float> x = RandomRow(random, 1003, 5);
  std::vector<float> shifted(1100);
  std::vector<float> weights(1100, 1.5f), normed(1003), expected(1003);
  rows().rms_norm(x.data(), weights.data(), 1e-5f, 1003, expected.data());
  std::vector<float> layer_normed(1003);
  rows().layer_norm(x.data(), nullptr, weights.data(), weights.data(), 1e-5f, 1003,
                    layer_normed.data());
  for (size_t offset : {1u, 3u, 16u, 17u}) {
    std::copy(x.begin(), x.end(), shifted.begin() + static_cast<ptrdiff_t>(offset));
    rows().rms_norm(shifted.data() + offset, weights.data() + offset, 1e-5f, 1003, normed.data());
    EXPECT_EQ(normed, expected) << offset;
    rows().layer_norm(shifted.data() + offset, nullptr, weights.data() + offset, weights.data(),
                      1e-5f, 1003, normed.data());
    EXPECT_EQ(normed, layer_normed) << offset;
  }
}

TEST(RopeTableTest, HoldsTheAnglesOfEveryPositionWithScaling) {
  const std::vector<float> factors = {1.0f, 2.0f, 8.0f};
  const RopeTable table(
      {.dims = 6, .freq_base = 500.0, .linear_factor = 4.0, .freq_factors = factors}, 100);
  for (int position : {0, 1, 50, 99}) {
    for (int i = 0; i < 3; ++i) {
      const double angle = position / 4.0 * std::pow(500.0, -2.0 * i / 6) /
                           static_cast<double>(factors[static_cast<size_t>(i)]);
      EXPECT_NEAR(table.data()[position * 6 + i], std::cos(angle), 1e-7);
      EXPECT_NEAR(table.data()[position * 6 + 3 + i], std::sin(angle), 1e-7);
    }
  }
}

// The published parameters of Llama 3.2 1B (factor 32, low 1, high 4, original context 8,192, theta
// 500,000): high frequencies stay, low ones are divided by the factor, and the blend between is
// monotonic.
// The factors of gpt-oss, by the formula of transformers 4.57.6 in Python.
TEST(RopeTableTest, YarnsRampMayBeginAndEndBetweenPairs) {
  YarnParams yarn{.factor = 32.0, .original_context = 4096.0, .truncate = false};
  const std::vector<float> exact = YarnFreqFactors(64, 150000.0, yarn);
  ASSERT_EQ(exact.size(), 32u);
  const std::vector<float> ramp = {1.1042999f, 1.2477491f, 1.4340306f, 1.6856946f, 2.0444910f,
                                   2.5973260f, 3.5599426f, 5.6562538f, 13.757521f};
  for (size_t i = 0; i < exact.size(); ++i) {
    const float want = i < 9 ? 1.0f : i < 18 ? ramp[i - 9] : 32.0f;
    EXPECT_NEAR(exact[i], want, 1e-6f * want) << i;
  }
  yarn.truncate = true;  // from 8 to 18
  EXPECT_GT(YarnFreqFactors(64, 150000.0, yarn)[9], exact[9]);
  EXPECT_LT(YarnFreqFactors(64, 150000.0, yarn)[17], exact[17]);
}

TEST(RopeTableTest, Llama3FactorsKeepHighFrequenciesAndDivideLowOnes) {
  const std::vector<float> factors = Llama3FreqFactors(64, 500000.0, 32.0, 1.0, 4.0, 8192.0);
  ASSERT_EQ(factors.size(), 32u);
  for (size_t i = 0; i <= 13; ++i) EXPECT_EQ(factors[i], 1.0f) << i;   // wavelength below 8192 / 4
  for (size_t i = 18; i < 32; ++i) EXPECT_EQ(factors[i], 32.0f) << i;  // above 8192
  for (size_t i = 1; i < 32; ++i) EXPECT_GE(factors[i], factors[i - 1]);
  EXPECT_GT(factors[15], 1.0f);
  EXPECT_LT(factors[15], 32.0f);
}

}  // namespace
}  // namespace tutti::kernels
