// FirstNonFinite: finds NaN and infinity in weights before they reach every activation of a model.
//
// A quantised block is judged by its scales alone: its codes are integers, and a finite fp16 scale
// times any of them stays finite. Pure; any thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// The first element (for a quantised type: of the first block) that is not finite, or -1. Arguments
// as DequantizeRow's.
int64_t FirstNonFinite(DType dtype, const void* blocks, int64_t n);

}  // namespace tutti::tensor
