// Products of few rows with the low-rank matrices of an adapter (LoRA).
//
// What: out[r][c] (+)= scale * sum_k x[r][k] * w[k][c]. An adapter adds scale * B (A x) to the
// product of a matrix: "shrink" is the product with A, whose columns c are the rank, "expand" the
// one with B, whose k are the rank. Plain data, safe to include from per-ISA translation units.
// Owner: the caller owns all memory; kernels never allocate and never fail. Thread: any, on
// disjoint outputs. Units: strides are in floats.
//
// Bits: s = fma(w[k][c], x[r][k], s) for k ascending, then s * scale, or fma(s, scale, out) with
// `add`. A result depends on its own row and column alone: never on the other rows, the range of
// panels or the table. All tables give the same bits.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; the names of the
// two products are those of Punica (Chen et al., 2023).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

inline constexpr int kLowRankPanel = 16;  // columns of a panel

// The type of a matrix's values in memory; they are widened exactly when read.
enum class LowRankType : uint8_t { kF32, kF16, kBf16 };
constexpr size_t LowRankBytes(LowRankType type) { return type == LowRankType::kF32 ? 4 : 2; }

struct LowRankArgs {
  // [panels][inner][kLowRankPanel] values of `type`; the columns behind the last one are zeros.
  const void* weight = nullptr;
  LowRankType type = LowRankType::kF32;
  int32_t inner = 0;                 // the length of a row of x
  int32_t columns = 0;               // of the whole matrix
  const float* const* x = nullptr;   // [rows], each [inner]
  float* const* out = nullptr;       // [rows], each the place of column 0
  int32_t rows = 0;                  // >= 1
  int32_t out_step = kLowRankPanel;  // from the columns of a panel in `out` to those of the next
  float scale = 1;
  bool add = false;
};

constexpr int32_t LowRankPanels(int32_t columns) {
  return (columns + kLowRankPanel - 1) / kLowRankPanel;
}

// Panels [panel_begin, panel_end) for all rows.
using LowRankKernel = void (*)(const LowRankArgs& args, int32_t panel_begin, int32_t panel_end);

}  // namespace tutti::kernels
