// DequantizeRow: scalar reference implementation of every readable type; all faster paths are
// tested against it. FirstNonFinite: finds NaN and infinity in weights before they reach every
// activation of a model.
//
// Values equal those of the format's reference to the bit: one float multiplication per scale
// product, then one per element, then one addition or subtraction where the type has an offset.
// Pure; any thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// Writes n floats. `blocks` holds RowBytes(dtype, n) bytes, aligned as the type's block (2 bytes
// for quantised and 16-bit types, 4 for F32); n is a multiple of the block.
void DequantizeRow(DType dtype, const void* blocks, float* out, int64_t n);

// The first element (for a quantised type: of the first block) that is not finite, or -1. Arguments
// as DequantizeRow's. A quantised block is judged by its scales alone: its codes are integers, and
// a finite fp16 scale times any of them stays finite.
int64_t FirstNonFinite(DType dtype, const void* blocks, int64_t n);

}  // namespace tutti::tensor
