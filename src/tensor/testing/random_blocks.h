// RandomBlocks: random blocks of the types that have no encoder in this project, for tests and
// generated checkpoints. Test code only; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace tutti::tensor::testing {

// RowBytes(dtype, n) bytes: any bits, but scales such that the root mean square of the elements is
// about `level` (of MXFP4 within a factor of two). `dtype` is one of kTranscodedTypes, n a multiple
// of its block. The same for the same arguments on every machine.
std::vector<std::byte> RandomBlocks(DType dtype, int64_t n, uint64_t seed, float level);

}  // namespace tutti::tensor::testing
