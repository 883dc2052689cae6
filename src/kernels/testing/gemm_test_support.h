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
#include "tensor/dtype.h"
#include "tensor/quantize.h"

namespace tutti::kernels {

// The AVX-VNNI text with EVEX encodings: cpu/avxvnni/gemm_avxvnni_evex_test.cc.
const GemmKernels& AvxVnniEvexGemmKernelsForTest();

// The tiles of AMX over a tile unit in plain C++: gemm_amx_emulated_test.cc.
const GemmKernels& AmxEmulatedGemmKernelsForTest();

namespace testing {

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

  QuantizedBuffer(int32_t m, int32_t k, ScalePer scale = ScalePer::kBlock,
                  int32_t tile_rows = kMaxTile)
      : memory(AlignedBuffer::Allocate(QuantizedRowsBytes(m, k)).value()),
        rows(MakeQuantizedRows(memory.data(), m, k, scale, tile_rows)) {}
};

inline void QuantizeAll(const GemmKernels& kernels, const float* x, QuantizedBuffer& out) {
  QuantizeArgs args;
  args.x = x;
  args.x_stride = static_cast<size_t>(out.rows.cols);
  args.out = out.rows;
  kernels.quantize(args, 0, out.rows.rows);
}

// Every table this machine can run.
inline std::vector<const GemmKernels*> AllKernels() {
  std::vector<const GemmKernels*> out;
  for (Isa isa : DetectIsas()) {
    switch (isa) {
      case Isa::kScalar:
        out.push_back(&ScalarGemmKernels());
        out.push_back(&AmxEmulatedGemmKernelsForTest());
        break;
#if defined(__x86_64__)
      case Isa::kAvx2:
        out.push_back(&Avx2GemmKernels());
        break;
      case Isa::kAvxVnni:
        out.push_back(&AvxVnniGemmKernels());
        break;
      case Isa::kAvx512Vnni:
        out.push_back(&AvxVnniEvexGemmKernelsForTest());
        out.push_back(&Avx512VnniGemmKernels());
        break;
      case Isa::kAvx512Bf16:
        out.push_back(&Avx512Bf16GemmKernels());
        break;
      case Isa::kAmx:
        out.push_back(&AmxGemmKernels());
        break;
#elif defined(__aarch64__)
      case Isa::kNeonDot:
        out.push_back(&NeonDotGemmKernels());
        break;
      case Isa::kI8mm:
        out.push_back(&I8mmGemmKernels());
        break;
#endif
      default:
        break;
    }
  }
  return out;
}

// Those that have an ability: &GemmKernels::bf16_pairs.
inline std::vector<const GemmKernels*> KernelsWith(bool GemmKernels::*ability) {
  std::vector<const GemmKernels*> out = AllKernels();
  std::erase_if(out, [&](const GemmKernels* kernels) { return !(kernels->*ability); });
  return out;
}

// A call with its memory: everything a test may want to change is public.
struct Call {
  const GemmKernels& kernels;
  GemmArgs args;
  std::vector<float> x;
  QuantizedBuffer quantized;
  AlignedBuffer scratch;
  std::vector<float> out;

  Call(const GemmKernels& table, const PackedMatrix& weight, std::vector<float> activations)
      : kernels(table),
        x(std::move(activations)),
        quantized(
            static_cast<int32_t>(x.size()) / weight.cols, weight.cols, ActivationScale(weight),
            table.tile_rows(static_cast<int32_t>(x.size()) / weight.cols, ActivationScale(weight))),
        scratch(
            AlignedBuffer::Allocate(GemmScratchBytes(quantized.rows.rows, weight.cols)).value()),
        out(static_cast<size_t>(quantized.rows.rows) * static_cast<size_t>(weight.rows), -7.0f) {
    args.weight = weight;
    args.rows = quantized.rows.rows;
    args.out = out.data();
    args.out_stride = static_cast<size_t>(weight.rows);
    if (IsQuantized(weight.format)) {
      QuantizeAll(kernels, x.data(), quantized);
      args.x = quantized.rows;
    } else {
      args.x_f32 = x.data();
      args.x_stride = static_cast<size_t>(weight.cols);
    }
  }

  const std::vector<float>& Run() {
    kernels.gemm(args, 0, PanelCount(args.weight), scratch.data());
    return out;
  }
};

inline std::vector<float> Product(const GemmKernels& kernels, const PackedMatrix& weight,
                                  const std::vector<float>& x, GemmPath path = GemmPath::kAuto) {
  Call call(kernels, weight, x);
  call.args.path = path;
  return call.Run();
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace testing
}  // namespace tutti::kernels
