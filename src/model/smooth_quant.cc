#include "model/smooth_quant.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tutti::model {
namespace {

constexpr double kLeastOfMean = 0.25;  // a peak at least
constexpr double kWidest = 1e4;        // a factor, and 1 / that

}  // namespace

void RaiseToMagnitudes(std::span<const float> values, std::span<float> greatest) {
  const size_t cols = greatest.size();
  for (size_t row = 0; row + cols <= values.size(); row += cols) {
    for (size_t k = 0; k < cols; ++k)
      greatest[k] = std::max(greatest[k], std::abs(values[row + k]));
  }
}

std::vector<float> BalancingFactors(std::span<const float> peaks, std::span<const float> weights) {
  CHECK_EQ(peaks.size(), weights.size());
  double mean = 0;
  for (const float peak : peaks) mean += double{peak} / static_cast<double>(peaks.size());
  std::vector<float> factors(peaks.size(), 1.0f);
  for (size_t k = 0; k < peaks.size(); ++k) {
    const double peak = std::max(double{peaks[k]}, kLeastOfMean * mean);
    const double factor = std::sqrt(peak / double{weights[k]});
    if (!std::isfinite(factor) || factor == 0) continue;  // a column of zeros, on either side
    factors[k] = static_cast<float>(std::clamp(factor, 1 / kWidest, kWidest));
  }
  return factors;
}

}  // namespace tutti::model
