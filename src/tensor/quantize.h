// QuantizeRow: plain reference encoders, float to every type of kReadableTypes.
//
// Q8_0 is what load-time transcoding uses; the others make checkpoints for tests and benchmarks.
// The simple types round as the format's reference encoder does, to the bit. The K types use the
// nearest scale without a search over scales: valid blocks of ordinary quality, not the smallest
// error possible. Pure; any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// Writes RowBytes(dtype, n) bytes to `blocks` (aligned as for DequantizeRow); n is a multiple of
// the block. Input must be finite and within fp16's range for the quantised types.
void QuantizeRow(DType dtype, const float* in, void* blocks, int64_t n);

// --- shared with the searching encoders (quantize_search.h) ---

// 0 for a scale of 0 and for one so small that its inverse overflows: such a block decodes to
// (near) zero.
inline float InverseOfScale(float d) {
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Packs the low four bits of a K block's 256 codes, as Q4_K and Q5_K store them.
inline void PackNibblesK(const uint8_t q[256], uint8_t qs[128]) {
  for (int group = 0; group < 4; ++group) {
    for (int l = 0; l < 32; ++l) {
      qs[group * 32 + l] =
          static_cast<uint8_t>((q[group * 64 + l] & 15) | ((q[group * 64 + 32 + l] & 15) << 4));
    }
  }
}

}  // namespace tutti::tensor
