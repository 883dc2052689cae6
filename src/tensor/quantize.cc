#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"

namespace tutti::tensor {
namespace {

// Truncates to an integer in [0, top]. NaN and values below 0 give 0; values above `top` give
// `top`.
uint8_t Truncate(float value, int top) {
  if (!(value > 0.0f)) return 0;
  return value >= static_cast<float>(top) ? static_cast<uint8_t>(top) : static_cast<uint8_t>(value);
}

// The element of largest magnitude, sign kept; the first of equals.
float Extreme(const float* in, int n) {
  float extreme = in[0];
  for (int i = 1; i < n; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  return extreme;
}

void PackNibbles(const uint8_t q[32], uint8_t qs[16]) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((q[i] & 15) | ((q[i + 16] & 15) << 4));
}

void PackFifthBits(const uint8_t q[32], uint8_t qh[4]) {
  std::memset(qh, 0, 4);
  for (int i = 0; i < 32; ++i) {
    qh[i / 8] = static_cast<uint8_t>(qh[i / 8] | ((q[i] >> 4) << (i % 8)));
  }
}

// Symmetric codes around `middle` (8 or 16): the extreme element gets code 0.
float SymmetricCodes(const float* in, int middle, uint8_t q[32]) {
  const float d = Extreme(in, kBlock) / static_cast<float>(-middle);
  const float id = InverseOfScale(d);
  for (int i = 0; i < kBlock; ++i) {
    q[i] = Truncate(in[i] * id + (static_cast<float>(middle) + 0.5f), 2 * middle - 1);
  }
  return d;
}

// Codes 0..top between the smallest and the largest element; returns the step.
float AffineCodes(const float* in, int top, uint8_t q[32], float* minimum) {
  const auto [low, high] = std::minmax_element(in, in + kBlock);
  *minimum = *low;
  const float d = (*high - *low) / static_cast<float>(top);
  const float id = InverseOfScale(d);
  for (int i = 0; i < kBlock; ++i) q[i] = Truncate((in[i] - *low) * id + 0.5f, top);
  return d;
}

void Quantize(const float* in, BlockQ4_0* block) {
  uint8_t q[32];
  block->d = FloatToHalf(SymmetricCodes(in, 8, q));
  PackNibbles(q, block->qs);
}

void Quantize(const float* in, BlockQ4_1* block) {
  uint8_t q[32];
  float minimum = 0;
  block->d = FloatToHalf(AffineCodes(in, 15, q, &minimum));
  block->m = FloatToHalf(minimum);
  PackNibbles(q, block->qs);
}

void Quantize(const float* in, BlockQ5_0* block) {
  uint8_t q[32];
  block->d = FloatToHalf(SymmetricCodes(in, 16, q));
  PackNibbles(q, block->qs);
  PackFifthBits(q, block->qh);
}

void Quantize(const float* in, BlockQ5_1* block) {
  uint8_t q[32];
  float minimum = 0;
  block->d = FloatToHalf(AffineCodes(in, 31, q, &minimum));
  block->m = FloatToHalf(minimum);
  PackNibbles(q, block->qs);
  PackFifthBits(q, block->qh);
}

void Quantize(const float* in, BlockQ8_0* block) {
  const float d = std::fabs(Extreme(in, kBlock)) / 127.0f;
  const float id = InverseOfScale(d);
  block->d = FloatToHalf(d);
  for (int i = 0; i < kBlock; ++i) {
    // Half away from zero, as roundf; |in * id| is at most 127 up to one rounding.
    block->qs[i] = static_cast<int8_t>(std::clamp(std::round(in[i] * id), -127.0f, 127.0f));
  }
}

// The exponent makes the greatest magnitude at least 4 and less than 8 units of E2M1, whose
// greatest value is 6. Of equally near values the first.
void Quantize(const float* in, BlockMXFP4* block) {
  const float greatest = std::fabs(Extreme(in, kBlock));
  const int exponent = greatest > 0.0f ? std::ilogb(greatest) - 2 + 127 : 0;
  block->e = static_cast<uint8_t>(std::clamp(exponent, 0, 254));
  const float d = HalfOfE8M0(block->e);
  uint8_t q[32];
  for (int i = 0; i < kBlock; ++i) {
    q[i] = 0;
    float least = std::fabs(in[i]);
    for (uint8_t code = 1; code < 16; ++code) {
      const float off = std::fabs(d * static_cast<float>(kE2M1Values[code]) - in[i]);
      if (off >= least) continue;
      least = off;
      q[i] = code;
    }
  }
  PackNibbles(q, block->qs);
}

// Chooses 6-bit scales and minimums per 32 elements, then codes 0..top against the scales as
// stored.
void CodesK(const float* in, int top, uint16_t* d_bits, uint16_t* dmin_bits, uint8_t scales[12],
            uint8_t q[256]) {
  float step[8];
  float offset[8];  // >= 0: the sub-block starts at -offset
  for (int j = 0; j < 8; ++j) {
    const auto [low, high] = std::minmax_element(in + 32 * j, in + 32 * (j + 1));
    const float start = std::min(*low, 0.0f);
    offset[j] = -start;
    step[j] = (std::max(*high, start) - start) / static_cast<float>(top);
  }
  *d_bits = FloatToHalf(*std::max_element(step, step + 8) / 63.0f);
  *dmin_bits = FloatToHalf(*std::max_element(offset, offset + 8) / 63.0f);
  const float d = HalfToFloat(*d_bits);
  const float dmin = HalfToFloat(*dmin_bits);
  uint8_t sc[8];
  uint8_t mn[8];
  for (int j = 0; j < 8; ++j) {
    sc[j] = Truncate(step[j] * InverseOfScale(d) + 0.5f, 63);
    mn[j] = Truncate(offset[j] * InverseOfScale(dmin) + 0.5f, 63);
    const float inverse = InverseOfScale(d * static_cast<float>(sc[j]));
    const float base = dmin * static_cast<float>(mn[j]);
    for (int i = 32 * j; i < 32 * (j + 1); ++i)
      q[i] = Truncate((in[i] + base) * inverse + 0.5f, top);
  }
  PackScalesK(sc, mn, scales);
}

void Quantize(const float* in, BlockQ4_K* block) {
  uint8_t q[256];
  CodesK(in, 15, &block->d, &block->dmin, block->scales, q);
  PackCodes(q, block);
}

void Quantize(const float* in, BlockQ5_K* block) {
  uint8_t q[256];
  CodesK(in, 31, &block->d, &block->dmin, block->scales, q);
  PackCodes(q, block);
}

void Quantize(const float* in, BlockQ6_K* block) {
  float step[16];  // signed: the extreme of each 16 gets code 0
  for (int j = 0; j < 16; ++j) step[j] = Extreme(in + 16 * j, 16) / -32.0f;
  block->d = FloatToHalf(Extreme(step, 16) / -128.0f);
  const float d = HalfToFloat(block->d);
  uint8_t q[256];
  for (int j = 0; j < 16; ++j) {
    const float scale = std::clamp(std::round(step[j] * InverseOfScale(d)), -128.0f, 127.0f);
    block->scales[j] = static_cast<int8_t>(scale);
    const float inverse = InverseOfScale(d * scale);
    for (int i = 16 * j; i < 16 * (j + 1); ++i) q[i] = Truncate(in[i] * inverse + 32.5f, 63);
  }
  PackCodes(q, block);
}

// The low four bits of 256 codes, as Q4_K and Q5_K store them.
void PackNibblesK(const uint8_t q[256], uint8_t qs[128]) {
  for (int group = 0; group < 4; ++group) {
    for (int l = 0; l < 32; ++l) {
      qs[group * 32 + l] =
          static_cast<uint8_t>((q[group * 64 + l] & 15) | ((q[group * 64 + 32 + l] & 15) << 4));
    }
  }
}

template <typename Block>
void QuantizeBlocks(const float* in, void* blocks, int64_t n, int block_elements) {
  Block* block = static_cast<Block*>(blocks);
  for (int64_t i = 0; i < n; i += block_elements) Quantize(in + i, block++);
}

}  // namespace

void PackCodes(const uint8_t q[256], BlockQ4_K* block) { PackNibblesK(q, block->qs); }

void PackCodes(const uint8_t q[256], BlockQ5_K* block) {
  PackNibblesK(q, block->qs);
  std::memset(block->qh, 0, sizeof(block->qh));
  for (int i = 0; i < kSuperBlock; ++i) {
    block->qh[i % 32] = static_cast<uint8_t>(block->qh[i % 32] | ((q[i] >> 4) << (i / 32)));
  }
}

void PackCodes(const uint8_t q[256], BlockQ6_K* block) {
  std::memset(block->ql, 0, sizeof(block->ql));
  std::memset(block->qh, 0, sizeof(block->qh));
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int quarter = (i % 128) / 32;
    uint8_t& low = block->ql[half * 64 + (quarter % 2) * 32 + i % 32];
    uint8_t& high = block->qh[half * 32 + i % 32];
    low = static_cast<uint8_t>(low | ((q[i] & 15) << ((quarter / 2) * 4)));
    high = static_cast<uint8_t>(high | ((q[i] >> 4) << (quarter * 2)));
  }
}

void QuantizeRow(DType dtype, const float* in, void* blocks, int64_t n) {
  const size_t bytes = RowBytes(dtype, n);
  switch (dtype) {
    case DType::kF32:
      if (bytes > 0) std::memcpy(blocks, in, bytes);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(blocks)[i] = FloatToHalf(in[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(blocks)[i] = FloatToBFloat(in[i]);
      return;
    case DType::kQ4_0:
      return QuantizeBlocks<BlockQ4_0>(in, blocks, n, kBlock);
    case DType::kQ4_1:
      return QuantizeBlocks<BlockQ4_1>(in, blocks, n, kBlock);
    case DType::kQ5_0:
      return QuantizeBlocks<BlockQ5_0>(in, blocks, n, kBlock);
    case DType::kQ5_1:
      return QuantizeBlocks<BlockQ5_1>(in, blocks, n, kBlock);
    case DType::kQ8_0:
      return QuantizeBlocks<BlockQ8_0>(in, blocks, n, kBlock);
    case DType::kMXFP4:
      return QuantizeBlocks<BlockMXFP4>(in, blocks, n, kBlock);
    case DType::kQ4_K:
      return QuantizeBlocks<BlockQ4_K>(in, blocks, n, kSuperBlock);
    case DType::kQ5_K:
      return QuantizeBlocks<BlockQ5_K>(in, blocks, n, kSuperBlock);
    case DType::kQ6_K:
      return QuantizeBlocks<BlockQ6_K>(in, blocks, n, kSuperBlock);
    default:
      break;
  }
  CHECK(false) << "no encoder for type id " << static_cast<uint32_t>(dtype);
}

}  // namespace tutti::tensor
