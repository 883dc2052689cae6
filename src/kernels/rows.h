// Operations on rows of floats: norm, sum, activation, and the scan for the greatest.
//
// What: one table of function pointers per instruction set, POD only (see attention.h). Pure
// functions of their arguments. Thread: any, on disjoint outputs. Units: n counts floats.
// Alignment: any; 64 bytes is fastest. Aliasing: out may be the same pointer as an input where
// noted, and never overlap otherwise. Bits: each table sums in one order that depends on n alone,
// so a row gives the same bits wherever it stands; tables differ among each other in the last bits.
// argmax compares only: equal in all tables. NaN: propagates through arithmetic; argmax treats a
// NaN as lower than every number.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/low_rank.h"

namespace tutti::kernels {

struct RowKernels {
  const char* name;  // which file wrote it

  // out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int32_t n, float* out);
  // s = x + residual (x alone if residual is null); out[i] = (s[i] - mean(s)) / sqrt(variance(s) +
  // eps) * weight[i] + bias[i]. Two passes over s, which is kept in out: first the mean, then the
  // mean of (s - mean)^2, so that a mean far from 0 costs no digits. One FMA adds the bias. out may
  // be x or residual.
  void (*layer_norm)(const float* x, const float* residual, const float* weight, const float* bias,
                     float eps, int32_t n, float* out);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, int32_t n);
  // out[i] = x[i] * y[i]. out may be x or y.
  void (*multiply)(const float* x, const float* y, int32_t n, float* out);
  // out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]. out may be gate or up. Relative error <= 1e-6.
  void (*silu_mul)(const float* gate, const float* up, int32_t n, float* out);
  // Index of the greatest value, the lowest of equals; 0 if all are NaN or -inf. n >= 1.
  int32_t (*argmax)(const float* x, int32_t n);
  // Products with an adapter's matrices (low_rank.h), equal in all tables.
  LowRankKernel low_rank;
};

// Filled in cpu/<isa>/rows_*.cc. Call only on a machine that has the instructions.
const RowKernels& ScalarRowKernels();
const RowKernels& Avx2RowKernels();
const RowKernels& Avx512VnniRowKernels();
const RowKernels& NeonRowKernels();

}  // namespace tutti::kernels
