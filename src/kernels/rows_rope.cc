#include "kernels/rows_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tutti::kernels {

std::vector<float> Llama3FreqFactors(int32_t dims, double freq_base, double factor,
                                     double low_freq_factor, double high_freq_factor,
                                     double original_context) {
  std::vector<float> factors(static_cast<size_t>(dims / 2));
  const double low_wavelength = original_context / low_freq_factor;
  const double high_wavelength = original_context / high_freq_factor;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double frequency = std::pow(freq_base, -2.0 * static_cast<double>(i) / dims);
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    double divisor = 1.0;
    if (wavelength > low_wavelength) {
      divisor = factor;
    } else if (wavelength >= high_wavelength && high_wavelength < low_wavelength) {
      // Between the two borders the frequency blends from scaled to unscaled.
      const double smooth =
          (original_context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
      divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
    }
    factors[i] = static_cast<float>(divisor);
  }
  return factors;
}

std::vector<float> YarnFreqFactors(int32_t dims, double freq_base, const YarnParams& yarn) {
  // The pair, as a fraction, that turns this many times.
  const auto pair_of = [&](double turns) {
    return dims * std::log(yarn.original_context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(freq_base));
  };
  const double fast = pair_of(yarn.beta_fast), slowest = pair_of(yarn.beta_slow);
  const double low = std::max(yarn.truncate ? std::floor(fast) : fast, 0.0);
  double high = std::min(yarn.truncate ? std::ceil(slowest) : slowest, dims - 1.0);
  if (high == low) high += 0.001;  // no ramp of no width
  std::vector<float> factors(static_cast<size_t>(dims) / 2);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    factors[i] = static_cast<float>(1.0 / (slow / yarn.factor + (1.0 - slow)));
  }
  return factors;
}

RopeTable::RopeTable(const RopeParams& params, int32_t positions)
    : dims_(params.dims), positions_(positions) {
  CHECK(params.dims >= 2 && params.dims % 2 == 0) << params.dims;
  CHECK_GE(positions, 1);
  const size_t half = static_cast<size_t>(params.dims) / 2;
  CHECK(params.freq_factors.empty() || params.freq_factors.size() == half)
      << params.freq_factors.size();
  std::vector<double> frequency(half);
  for (size_t i = 0; i < half; ++i) {
    const double divisor =
        params.freq_factors.empty() ? 1.0 : static_cast<double>(params.freq_factors[i]);
    frequency[i] = std::pow(params.freq_base, -2.0 * static_cast<double>(i) / params.dims) /
                   (divisor * params.linear_factor);
  }
  values_.resize(static_cast<size_t>(positions) * half * 2);
  float* row = values_.data();
  for (int32_t position = 0; position < positions; ++position, row += 2 * half) {
    for (size_t i = 0; i < half; ++i) {
      row[i] = static_cast<float>(params.magnitude * std::cos(position * frequency[i]));
      row[half + i] = static_cast<float>(params.magnitude * std::sin(position * frequency[i]));
    }
  }
}

}  // namespace tutti::kernels
