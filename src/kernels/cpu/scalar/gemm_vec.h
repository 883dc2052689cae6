// Vec16: sixteen floats as one value, in plain C++. The other instruction sets define the same
// operations over their registers, and the code above them (cpu/gemm_*.inc) is the same text, so
// the bits are the same too.
//
// Everything is in an unnamed namespace: each translation unit keeps its own copy (see
// cpu/gemm_rows.inc).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/blocks.h"

namespace {

struct Vec16 {
  float lane[16];
};

#define TUTTI_LANES(expression)                            \
  Vec16 out;                                               \
  for (int i = 0; i < 16; ++i) out.lane[i] = (expression); \
  return out

inline Vec16 Load16(const float* p) { TUTTI_LANES(p[i]); }
inline void Store16(float* p, Vec16 v) { std::memcpy(p, v.lane, sizeof v.lane); }
inline Vec16 Set16(float x) { TUTTI_LANES(x); }
inline Vec16 Add(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] + b.lane[i]); }
inline Vec16 Sub(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] - b.lane[i]); }
inline Vec16 Mul(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] * b.lane[i]); }
inline Vec16 Div(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] / b.lane[i]); }
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {
  TUTTI_LANES(std::fma(a.lane[i], b.lane[i], c.lane[i]));
}
// As maxps and minps: the second operand if either is NaN.
inline Vec16 Max(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
inline Vec16 Min(Vec16 a, Vec16 b) { TUTTI_LANES(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
inline Vec16 Abs(Vec16 a) { TUTTI_LANES(std::fabs(a.lane[i])); }
// To the nearest integer, ties to even.
inline Vec16 Round(Vec16 a) { TUTTI_LANES(std::nearbyint(a.lane[i])); }
// 2^n for integral n in [-126, 127].
inline Vec16 PowerOfTwo(Vec16 n) {
  Vec16 out;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n.lane[i]) + 127) << 23;
    std::memcpy(&out.lane[i], &bits, sizeof bits);
  }
  return out;
}
// Adds the lanes in halves: 16 -> 8 -> 4 -> 2 -> 1.
inline float SumLanes(Vec16 a) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
  }
  return a.lane[0];
}
// Whether any lane is greater than x.
inline bool AnyGreater(Vec16 a, float x) {
  bool any = false;
  for (float lane : a.lane) any = any || lane > x;
  return any;
}

// The greatest magnitude among 32 * blocks floats as bits; a NaN counts as greater than every
// number.
inline uint32_t MaxMagnitude(const float* x, int32_t blocks) {
  uint32_t max = 0;
  for (int32_t i = 0; i < 32 * blocks; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffffu;
    max = bits > max ? bits : max;
  }
  return max;
}
// out[i] = x[i] * scale to the nearest integer, ties to even; what fits no int32 (NaN too) becomes
// 0. Block b (of 32) goes to out + b * stride. Returns the sum of all.
inline void QuantizeBlocks(const float* x, float scale, int32_t blocks, int8_t* out, size_t stride,
                           int32_t (&halves)[2]) {
  halves[0] = halves[1] = 0;
  for (int32_t b = 0; b < blocks; ++b, x += 32, out += stride) {
    for (int i = 0; i < 32; ++i) {
      const float v = std::nearbyint(x[i] * scale);
      out[i] = std::fabs(v) < 0x1p31f ? static_cast<int8_t>(static_cast<int32_t>(v)) : int8_t{0};
      halves[i / 16] += out[i];
    }
  }
}
// 16 halves to floats.
inline Vec16 WidenHalf16(const uint16_t* p) { TUTTI_LANES(tutti::tensor::HalfToFloat(p[i])); }
// 32 halves to floats.
inline void WidenHalf32(const uint8_t* p, float* out) {
  for (int i = 0; i < 32; ++i) {
    uint16_t half;
    std::memcpy(&half, p + 2 * i, sizeof half);
    out[i] = tutti::tensor::HalfToFloat(half);
  }
}
inline float SquareRoot(float x) { return std::sqrt(x); }

#undef TUTTI_LANES

}  // namespace
