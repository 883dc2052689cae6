// Weights that a script and a test both make from a seed (tools/make_score_goldens.py,
// tools/make_encoder_family_goldens.py): exact in float32. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::parity {

inline uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Number i is (SplitMix64(seed + i) >> 40) / 2^23 - 1, times `scale`, a power of two.
inline std::vector<float> GeneratedFloats(uint64_t seed, size_t count, float scale) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t drawn = SplitMix64(seed + i) >> 40;
    values[i] = (static_cast<float>(drawn) / 8388608.0F - 1) * scale;
  }
  return values;
}

}  // namespace tutti::parity
