#include "model/smooth_quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace tutti::model {
namespace {

TEST(SmoothQuant, MagnitudesAreThoseOfEachColumn) {
  std::vector<float> greatest = {0, 2, 0};
  RaiseToMagnitudes(std::vector<float>{1, -1, 0, -3, 0.5f, std::nanf("")}, greatest);
  EXPECT_EQ(greatest, (std::vector<float>{3, 2, 0}));
}

TEST(SmoothQuant, BothSidesOfAColumnBecomeAsGreatAsEachOther) {
  const std::vector<float> peaks = {1, 4, 100, 0.5f}, weights = {1, 1, 0.25f, 2};
  const std::vector<float> factors = BalancingFactors(peaks, weights);
  EXPECT_FLOAT_EQ(factors[2], 20);
  EXPECT_FLOAT_EQ(peaks[2] / factors[2], weights[2] * factors[2]);
  // The mean is 26.375: what is far below it is taken for a quarter of it.
  for (const size_t k : {0, 1, 3}) EXPECT_FLOAT_EQ(factors[k], std::sqrt(26.375f / 4 / weights[k]));
}

TEST(SmoothQuant, FactorsAreNumbersWhateverTheColumnsHold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> odd = {0,     -0.0f, 1e-45f, 1e-30f,    1,
                                  1e30f, 3e38f, 1e38f,  kInfinity, std::nanf("")};
  for (const float peak : odd) {
    for (const float other : odd) {
      for (const float weight : odd) {
        for (const float factor :
             BalancingFactors(std::vector<float>{peak, other}, std::vector<float>{weight, 1})) {
          ASSERT_TRUE(std::isfinite(factor) && factor >= 1e-4f && factor <= 1e4f)
              << peak << ' ' << other << ' ' << weight;
        }
      }
    }
  }
  EXPECT_TRUE(BalancingFactors({}, {}).empty());
}

// The purpose of smoothing: rows of int8 in which one great column costs the others their
// precision.
TEST(SmoothQuant, AProductOfRoundedRowsIsNearerTheTrueOne) {
  constexpr size_t kCols = 128, kRows = 64;
  Random random(1);
  const auto draw = [&] { return static_cast<float>(random.Uniform() * 2 - 1); };
  std::vector<float> weight(kRows * kCols), peaks(kCols, 0.0f), greatest(kCols, 0.0f);
  for (float& w : weight) w = draw();
  std::vector<std::vector<float>> inputs(32, std::vector<float>(kCols));
  for (auto& x : inputs) {
    for (float& v : x) v = draw();
    x[17] *= 60;
    RaiseToMagnitudes(x, peaks);
  }
  RaiseToMagnitudes(weight, greatest);
  const auto rounded = [](std::vector<float> row) {
    float most = 0;
    for (const float v : row) most = std::max(most, std::abs(v));
    for (float& v : row) v = std::nearbyint(v * 127 / most) * most / 127;
    return row;
  };
  const auto error = [&](const std::vector<float>& factors) {
    double sum = 0;
    for (const auto& input : inputs) {
      std::vector<float> x = input;
      for (size_t k = 0; k < kCols; ++k) x[k] /= factors[k];
      x = rounded(std::move(x));
      for (size_t n = 0; n < kRows; ++n) {
        std::vector<float> w(weight.begin() + static_cast<std::ptrdiff_t>(n * kCols),
                             weight.begin() + static_cast<std::ptrdiff_t>((n + 1) * kCols));
        double exact = 0, found = 0;
        for (size_t k = 0; k < kCols; ++k) {
          exact += double{w[k]} * input[k];
          w[k] *= factors[k];
        }
        w = rounded(std::move(w));
        for (size_t k = 0; k < kCols; ++k) found += double{w[k]} * x[k];
        sum += (exact - found) * (exact - found);
      }
    }
    return std::sqrt(sum);
  };
  EXPECT_LT(error(BalancingFactors(peaks, greatest)), 0.5 * error(std::vector<float>(kCols, 1)));
}

}  // namespace
}  // namespace tutti::model
