// Packing: rows of a weight file into the panels that gemm.h reads.
//
// A packed matrix is described row by row, so that matrices which share their input are fused (Q, K
// and V into one) and matrices that meet in an epilogue are interleaved (gate and up, 16 + 16 rows
// per panel). Owner: the caller owns sources and destination; sources may go once packed.
// Thread: panels are independent, any number of workers may pack disjoint ranges of one spec.
// Errors: Status, because scales come from files: model_nonfinite names the row. Cost: about 1 ns
// per weight.
//
// Exactness, type by type (w: the value DequantizeRow gives):
//   Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, F32, F16, BF16 in their own format: the same numbers.
//   Q4_K, Q5_K as Q4_1, Q5_1: scale and minimum of each 32 are rounded to fp16 once more, at most
//   2^-11 of either:
//     some fifty times below the format's own step.
//   Q6_K, Q3_K as Q6: the same integers, the scale of each 16 rounded to fp16.
//   TQ1_0, TQ2_0 as Q4_0, IQ4_NL as Q8_0: the same numbers. MXFP4 in its own format: the same
//   numbers where half of the scale, a power of two, is one of fp16.
//   IQ1_S, IQ3_S as Q5_0, IQ2_XXS, IQ3_XXS, IQ4_XS as Q8_0: the same integers, the scale of each 32
//   rounded to fp16.
//   Q2_K, IQ1_M, IQ2_XS, IQ2_S as Q8_0: requantised per 32 with step max|w| / 127; at most
//   half of that step off.
//   F32, F16, BF16 as Q8_0: the same rounding. Anything as F16 or BF16: to nearest
//   even; what is beyond fp16 is an error. Anything as BF16x2: as BF16. Anything as F32:
//   exactly w.
//   Anything as I8_ROW: requantised per row with step max|w| / 127; at most half of that step off.
//
// Long, because each type of a file has its own loop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/gemm.h"
#include "tensor/dtype.h"

namespace tutti::kernels {

// The compact format for a type: its own, or the one named above.
WeightFormat NativeFormat(tensor::DType dtype);
// Accuracy that NativeFormat() loses against the file's values, in words; "" for types that have a
// format of their own.
std::string_view PackingLoss(tensor::DType dtype);
// Whether rows of `dtype` can be packed as `format`: its native format, F32, F16, BF16, BF16x2,
// I8_ROW, and for float types also Q8_0.
bool CanPack(tensor::DType dtype, WeightFormat format);

// Row `row` of source `source`; source -1 is a row of zeros.
struct PackRow {
  int32_t source;
  int32_t row;
};

struct PackSpec {
  std::vector<tensor::TensorView> sources;
  std::vector<PackRow> rows;  // N entries, in packed order
  int32_t cols = 0;           // K
  WeightFormat format = WeightFormat::kF32;
  std::vector<std::string> names = {};  // of the sources, for messages; none: they are numbered
};

// All rows of the sources one after another (Q, K, V; or one matrix alone).
PackSpec ConcatenateRows(std::vector<tensor::TensorView> sources, WeightFormat format);
// Panels of 16 gate rows and the same 16 up rows, for the gated epilogues. The rows must be a
// multiple of 16.
PackSpec InterleaveGateUp(const tensor::TensorView& gate, const tensor::TensorView& up,
                          WeightFormat format);

// Whether the spec can be packed: K a multiple of 32 (as I8_ROW at most kMaxRowScaledCols), sources
// of that width and of packable types, rows within them. model_hparam or gguf_unsupported_type
// otherwise.
Status CheckPack(const PackSpec& spec);

// The geometry of the packed spec, with no data yet; its bytes are PackedBytes.
PackedMatrix DescribePacked(const PackSpec& spec);
size_t PackedBytes(const PackedMatrix& matrix);

// Packs panels [panel_begin, panel_end) to their places in `out` (of the whole matrix, 64-byte
// aligned). The spec must have passed CheckPack.
Status PackPanels(const PackSpec& spec, int32_t panel_begin, int32_t panel_end, uint8_t* out);

// Turns packed panels of F16 or BF16 (`matrix.format`), [panel_begin, panel_end) of those at
// `data`, into BF16x2, in place. The result equals packing the same weights as BF16x2, byte for
// byte.
void PairUpPanels(const PackedMatrix& matrix, int32_t panel_begin, int32_t panel_end,
                  uint8_t* data);

// A packed matrix with its memory.
struct OwnedMatrix {
  AlignedBuffer memory;
  PackedMatrix view;
};
// CheckPack, allocate, pack on the calling thread.
Result<OwnedMatrix> PackMatrix(const PackSpec& spec);

// Row `row` of a packed matrix as floats [matrix.cols]: embedding lookup from a tied head, and
// tests.
void UnpackRow(const PackedMatrix& matrix, int32_t row, float* out);

// Copies the weights of `columns`, which are outliers of the activations, to the form of
// PackedMatrix::outliers: OutlierBytes() of 64-byte aligned memory. The matrix has scales per
// block.
size_t OutlierBytes(const PackedMatrix& matrix, int32_t outliers);
void CopyOutliers(const PackedMatrix& matrix, std::span<const int32_t> columns, uint16_t* out);

}  // namespace tutti::kernels
