// QuantizeRowSearched: encoders that search for scales with small errors, for files that are made
// once and read often (`tutti quantize`).
//
// For Q4_K, Q5_K and Q6_K, scales and minimums are searched: for each block of 32 (Q6_K: 16)
// several steps are tried, each with the codes that are nearest to it and then the scale and
// minimum that are best for those codes (weighted least squares); then, with the scales of the 256
// as they are stored, the values next to each are tried. The weight of an element is its magnitude
// and the root mean square of its block: large weights meet large activations, which is what ggml's
// encoders assume without calibration data, too. All other types are encoded as QuantizeRow does:
// for them it is the format's own encoder. About 0.1 us per element of a K type. Pure; the same
// bytes on every machine; any thread.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// As QuantizeRow: RowBytes(dtype, n) bytes to `blocks`; n is a multiple of the block. Scales beyond
// fp16 become infinite, which FirstNonFinite finds.
void QuantizeRowSearched(DType dtype, const float* in, void* blocks, int64_t n);

}  // namespace tutti::tensor
