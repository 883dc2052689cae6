// fp16 and bf16 bit patterns to float and back, in integer arithmetic: exact, the same on every
// machine.
//
// Widening is lossless (signalling NaNs become quiet, payloads kept). Narrowing rounds to nearest,
// ties to even; beyond the largest finite value it gives infinity, NaN stays NaN. Pure; any thread.
// `static inline` for the reason given in tensor/blocks.h.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::tensor {

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

static inline float BFloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

static inline uint16_t FloatToBFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 64u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace tutti::tensor
