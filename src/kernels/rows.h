// Operations on rows of floats: norms, activations, and the scans that sampling needs.
//
// What: one table of function pointers per instruction set, POD only (see attention.h). Pure
// functions of their arguments. Thread: any, on disjoint outputs. Units: n counts floats.
// Alignment: any; 64 bytes is fastest. Aliasing: out may be the same pointer as an input where
// noted, and never overlap otherwise. Bits: each table sums in one order that depends on n alone,
// so a row gives the same bits wherever it stands; tables differ among each other in the last bits.
// max, argmax and top_k compare only: equal in all tables. NaN: propagates through arithmetic;
// scans treat a NaN as lower than every number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

// A logit and its token. Order: higher value first; among equals the lower id first.
struct RowCandidate {
  float value;
  int32_t id;
};

// Entries per block maximum of top_k.
inline constexpr int kTopKBlock = 64;
// Bytes of scratch that top_k needs, 64-byte aligned.
static constexpr size_t TopKScratchBytes(int32_t n) {
  return (static_cast<size_t>(n) / kTopKBlock + 2) * 2 * sizeof(float) +
         static_cast<size_t>(n) * 8 + 128;
}

struct RowKernels {
  const char* name;  // which file wrote it

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int32_t n, float* out);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, int32_t n);
  // out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]. out may be gate or up. Relative error <= 1e-6.
  void (*silu_mul)(const float* gate, const float* up, int32_t n, float* out);
  // out[i] = exp(x[i]), relative error <= 3e-7 for x in [-87, 88]; below: towards 0; above: inf.
  // out may be x.
  void (*exp)(const float* x, int32_t n, float* out);

  // Greatest value; -inf for n = 0.
  float (*max)(const float* x, int32_t n);
  // Index of the greatest value, the lowest of equals; 0 if all are NaN or -inf. n >= 1.
  int32_t (*argmax)(const float* x, int32_t n);
  // log(sum(exp(x[i]))) around the maximum; absolute error <= 1e-5 up to a million entries. -inf
  // entries count as nothing (masked tokens); all -inf gives -inf. n >= 1.
  double (*log_sum_exp)(const float* x, int32_t n);
  // x[i] = exp(x[i] - max) / sum. n >= 1.
  void (*softmax)(float* x, int32_t n);
  // The k best of x in order (see RowCandidate), exactly; returns how many: min(k, entries that are
  // neither NaN nor -inf). 1 <= k. scratch: TopKScratchBytes(n), 64-byte aligned.
  int32_t (*top_k)(const float* x, int32_t n, int32_t k, RowCandidate* out, void* scratch);
};

// Filled in cpu/<isa>/rows_*.cc. Call only on a machine that has the instructions.
const RowKernels& ScalarRowKernels();
const RowKernels& Avx2RowKernels();
const RowKernels& Avx512VnniRowKernels();

}  // namespace tutti::kernels
