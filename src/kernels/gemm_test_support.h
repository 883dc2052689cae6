// Matrices and activations for the tests and benches of packing and GEMM. Deterministic; any
// thread.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/pack.h"
#include "tensor/quantize.h"
#include "tensor/tensor_view.h"

namespace tutti::kernels::testing {

inline std::vector<float> RandomFloats(size_t n, uint64_t seed, float amplitude = 1.0f) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = amplitude * static_cast<float>(2.0 * random.Uniform() - 1.0);
  return out;
}

// A weight file's tensor: random values in some type.
struct FileTensor {
  std::vector<std::byte> bytes;
  tensor::TensorView view;

  FileTensor(tensor::DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
    const std::vector<float> values = RandomFloats(static_cast<size_t>(rows * cols), seed, 0.3f);
    view.dtype = dtype;
    view.shape = {cols, rows};
    bytes.resize(view.bytes());
    for (int64_t r = 0; r < rows; ++r) {
      tensor::QuantizeRow(dtype, values.data() + r * cols,
                          bytes.data() + static_cast<size_t>(r) * view.row_bytes(), cols);
    }
    view.data = bytes.data();
  }
  FileTensor(const FileTensor&) = delete;
};

inline OwnedMatrix PackOrDie(const PackSpec& spec) {
  Result<OwnedMatrix> packed = PackMatrix(spec);
  CHECK(packed.ok()) << packed.status().ToString();
  return std::move(packed).value();
}

// Memory of QuantizedRows together with its view.
struct QuantizedBuffer {
  AlignedBuffer memory;
  QuantizedRows rows;

  QuantizedBuffer(int32_t m, int32_t k)
      : memory(AlignedBuffer::Allocate(QuantizedRowsBytes(m, k)).value()),
        rows(MakeQuantizedRows(memory.data(), m, k)) {}
};

inline void QuantizeAll(const GemmKernels& kernels, const float* x, QuantizedBuffer& out) {
  QuantizeArgs args;
  args.x = x;
  args.x_stride = static_cast<size_t>(out.rows.cols);
  args.out = out.rows;
  kernels.quantize(args, 0, out.rows.rows);
}

}  // namespace tutti::kernels::testing
