// QuantizeRow: plain reference encoders, float to every type of kReadableTypes.
//
// Q8_0 is what load-time transcoding uses; the others make checkpoints for tests and benchmarks.
// The simple types round as the format's reference encoder does, to the bit. The K types use the
// nearest scale without a search over scales: valid blocks of ordinary quality, not the smallest
// error possible. Pure; any thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// Writes RowBytes(dtype, n) bytes to `blocks` (aligned as for DequantizeRow); n is a multiple of
// the block. Input must be finite and within fp16's range for the quantised types.
void QuantizeRow(DType dtype, const float* in, void* blocks, int64_t n);

}  // namespace tutti::tensor
