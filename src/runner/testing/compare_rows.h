// Comparisons of rows of floats for tests of encoders. Any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tutti::runner {

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace tutti::runner
