// The blocks of the quantised types as they lie in a file: little-endian, packed, two-byte aligned.
//
// `d` scales, `m`/`dmin` offsets; both are fp16 bit patterns. The comment of each type gives its
// value formula. Plain data; any thread. Source: ggml's block definitions.
//
// The functions are `static inline` on purpose: each translation unit keeps its own copy, so one
// compiled with AVX-512 flags can never become the copy a plain translation unit runs.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::tensor {

// --- fp16 and bf16 ---
//
// Bit patterns to float and back, in integer arithmetic: exact, the same on every machine. Widening
// is lossless (signalling NaNs become quiet, payloads kept). Narrowing rounds to nearest, ties to
// even; beyond the largest finite value it gives infinity, NaN stays NaN.
static inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3FFu;
  if (exponent == 31) {  // infinity, or NaN made quiet
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13) | quiet);
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  // Subnormal: mantissa * 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

static inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {  // NaN: keep the top of the payload, quiet
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u)
    return static_cast<uint16_t>(sign | 0x7C00u);  // rounds to 65536 or more
  if (magnitude >= 0x38800000u) {                  // normal: 2^-14 and up
    const uint32_t rounded = magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | (rounded >> 13));
  }
  if (magnitude <= 0x33000000u)
    return static_cast<uint16_t>(sign);  // at most 2^-25: ties to even zero
  // Subnormal: shift the full significand to units of 2^-24, rounding the bits shifted out.
  const uint32_t shift = 126u - (magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t kept = significand >> shift;
  const uint32_t lost = significand & ((1u << shift) - 1u);
  const uint32_t halfway = 1u << (shift - 1u);
  const uint32_t up = lost > halfway || (lost == halfway && (kept & 1u) != 0) ? 1u : 0u;
  return static_cast<uint16_t>(sign | (kept + up));
}

// Rounds once, where a float between would round twice.
static inline uint16_t DoubleToHalf(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return FloatToHalf(nearest);
  // To the odd one of the two floats around it, which rounds as the value itself does.
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool outwards =
      value > 0 ? static_cast<double>(nearest) > value : static_cast<double>(nearest) < value;
  if (outwards) --bits;  // the one nearer to zero
  return FloatToHalf(std::bit_cast<float>(bits | 1u));
}

static inline float BFloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

static inline uint16_t FloatToBFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 64u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// --- blocks ---

inline constexpr int kBlock = 32;        // elements of a block of the simple types
inline constexpr int kSuperBlock = 256;  // elements of a block of the K types

// d * (q - 8); low nibbles are elements 0..15, high nibbles 16..31.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// d * q + m; nibbles as Q4_0.
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// d * (q - 16); nibbles as Q4_0, bit j of qh (little-endian 32 bits) is the fifth bit of element j.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// d * q + m; bits as Q5_0.
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// d * q.
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// (d * sc[j]) * q - (dmin * mn[j]) with j = element / 32; `scales` packs eight 6-bit (sc, mn)
// pairs. Each 32 bytes of qs hold 64 elements: low nibbles the first 32, high nibbles the next 32.
struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As Q4_K with a fifth bit: for 64-element group g and l = 0..31, bit 2g of qh[l] belongs to
// element l of the group, bit 2g + 1 to element 32 + l.
struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// (d * scales[element / 16]) * (q - 32). Per half h of 128 elements and l = 0..31, with L = ql +
// 64h and H = qh + 32h: elements l, l+32, l+64, l+96 take their low four bits from the low nibbles
// of L[l], L[l+32] and the high nibbles of L[l], L[l+32], and their upper two from bits 0-1, 2-3,
// 4-5, 6-7 of H[l].
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

// Twice the values of E2M1, which a code of four bits stands for.
inline constexpr int8_t kE2M1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// HalfOfE8M0(e) * kE2M1Values[code]; nibbles as Q4_0.
struct BlockMXFP4 {
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

// Half of the power of two that the eight bits stand for: 2^(e - 128).
static inline float HalfOfE8M0(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

static_assert(alignof(BlockQ4_0) == 2 && alignof(BlockQ4_1) == 2 && alignof(BlockQ5_0) == 2 &&
              alignof(BlockQ5_1) == 2 && alignof(BlockQ8_0) == 2 && alignof(BlockQ4_K) == 2 &&
              alignof(BlockQ5_K) == 2 && alignof(BlockQ6_K) == 2);

// Unpacks the eight 6-bit scales and minimums of a Q4_K or Q5_K block.
static inline void UnpackScalesK(const uint8_t packed[12], uint8_t sc[8], uint8_t mn[8]) {
  for (int j = 0; j < 4; ++j) {
    sc[j] = packed[j] & 63;
    mn[j] = packed[j + 4] & 63;
    sc[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | ((packed[j] >> 6) << 4));
    mn[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | ((packed[j + 4] >> 6) << 4));
  }
}

// The inverse; every value must be below 64.
static inline void PackScalesK(const uint8_t sc[8], const uint8_t mn[8], uint8_t packed[12]) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(sc[j] | ((sc[j + 4] >> 4) << 6));
    packed[j + 4] = static_cast<uint8_t>(mn[j] | ((mn[j + 4] >> 4) << 6));
    packed[j + 8] = static_cast<uint8_t>((sc[j + 4] & 15) | ((mn[j + 4] & 15) << 4));
  }
}

}  // namespace tutti::tensor
