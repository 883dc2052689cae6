// QuantizeRow: plain reference encoders, float to every type of kReadableTypes and to MXFP4.
//
// Q8_0 is what load-time transcoding uses; the others make checkpoints for tests and benchmarks.
// The simple types round as the format's reference encoder does, to the bit. The K types use the
// nearest scale without a search over scales: valid blocks of ordinary quality, not the smallest
// error possible. Pure; any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace tutti::tensor {

// Writes RowBytes(dtype, n) bytes to `blocks` (aligned as for DequantizeRow); n is a multiple of
// the block. Input must be finite and within fp16's range for the quantised types.
void QuantizeRow(DType dtype, const float* in, void* blocks, int64_t n);

// Encodes as QuantizeRow does, but searches for scales with small errors, for files that are made
// once and read often (`tutti quantize`).
//
// For Q4_K, Q5_K and Q6_K, scales and minimums are searched: for each block of 32 (Q6_K: 16)
// several steps are tried, each with the codes that are nearest to it and then the scale and
// minimum that are best for those codes (weighted least squares); then, with the scales of the 256
// as they are stored, the values next to each are tried. The weight of an element is its magnitude
// and the root mean square of its block: large weights meet large activations, which is what ggml's
// encoders assume without calibration data, too. For all other types QuantizeRow is the format's
// own encoder. About 0.1 us per element of a K type. Scales beyond fp16 become infinite, which
// FirstNonFinite finds. The same bytes on every machine.
void QuantizeRowSearched(DType dtype, const float* in, void* blocks, int64_t n);

// --- shared with the searching encoders (quantize_search.cc) ---

// 0 for a scale of 0 and for one so small that its inverse overflows: such a block decodes to
// (near) zero.
inline float InverseOfScale(float d) {
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Packs a K block's 256 codes.
void PackCodes(const uint8_t q[256], BlockQ4_K* block);
void PackCodes(const uint8_t q[256], BlockQ5_K* block);
void PackCodes(const uint8_t q[256], BlockQ6_K* block);

}  // namespace tutti::tensor
