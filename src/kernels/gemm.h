// Quantised matrix products: weight panels, quantised activations, and the table of kernels over
// them.
//
// What: y[m][n] = sum_k x[m][k] * w[n][k] for M rows of activations (tokens) and N rows of weights,
// with fused epilogues. Plain data and one table of function pointers per instruction set; safe to
// include from per-ISA translation units, because nothing here is an inline function with external
// linkage that does work. Owner: the caller owns all memory; kernels own nothing, never allocate
// and never fail. Thread: SPMD. Every worker calls gemm() for its own range of panels and
// quantize() for its own range of rows, all at once, each with its own scratch; the caller puts a
// barrier between producer and consumer. Units: strides are in floats. Errors: none; shapes are
// checked where a matrix is packed (pack.h).
//
// Bits: an output row depends on its own activations and on the weights only: never on M, its place
// in the batch, the tiling, the path, the range of panels or the number of workers. All tables give
// the same bits as the scalar one, but for activations in bfloat16, where a tile unit sums in an
// order of its own. The arithmetic, per output, over the 32-wide blocks b of K in
// ascending order:
//
//   quantised formats:
//     i_b = sum of (w - offset) * q as integers (exact)
//     f = fma(float(i_b), d_w * d_x, f)
//     with a minimum then f = fma(m_w, s_x, f)
//   kQ6:
//     i_h = sum of (w - 32) * q over half h of the block
//     f = fma(fma(float(i_1), d_1, float(i_0) * d_0), d_x, f)
//   kI8Row:
//     i = sum of w * q over all of K as integers (exact)
//     f = float(i) * (d_w * d_x)
//   kBf16Pairs: x rounded to bfloat16, to nearest even; for pairs of k ascending
//     f = fma(w, x, f) of the odd k, then of the even one
//     what is smaller than a normal float32 counts as zero (as `vdpbf16ps` does)
//   the same with GemmKernels::bf16_tiles, whose order is that of a tile unit (`tdpbf16ps`):
//     e = fma(w, x, e) over the even k of the block, o = fma(w, x, o) over the odd ones, from zero
//     f = f + (e + o)
//   formats with a scale per block and activations in bfloat16 (PackedMatrix::in_bf16; tables with
//   bf16_tiles alone), where half() rounds to fp16:
//     d' = half(d_w * 256.75), m' = half(m_w * 256.75), or -offset * d' without a minimum; both
//     within 65504, -offset * d' too
//     h = half(fma(w, d', m'))
//     v = the bfloat16 with the bits ((h >> 3) & 0x8fff) | 0x3000, which is h / 65536 with seven
//         bits of its mantissa (1 / 2^31 if h is 0); f as above with v for w, at the end f * 256
//     The excess of 0.75 is what cutting takes off on average. No weight counts as more than 256.
//   float formats:
//     f = fma(w, x, f), k ascending
//
//   formats with a scale per block: then for the outliers j of x, ascending
//     f = fma(w_j, x_j, f)
//   then bias (one add), then the epilogue.
// Source of the layout and tile: interleaved rows as in BesTLA and ik_llama.cpp, broadcasts from
// the load ports.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

inline constexpr int kPanelRows = 32;   // weight rows per panel; N is padded to it
inline constexpr int kQuantBlock = 32;  // activations and weights per scale
inline constexpr int kMaxTile = 8;      // activation rows of one register tile
inline constexpr int kUnitTile = 32;    // the same of a tile unit (AMX), two of whose tiles have 16
inline constexpr int kMaxOutliers = 2;  // columns of activations that stay floats

// The rows of a packed matrix: weight rows padded to whole panels.
constexpr int RoundUpToPanel(int rows) { return (rows + kPanelRows - 1) / kPanelRows * kPanelRows; }

// Storage format of a packed matrix. A panel is 32 rows x all of K; inside, one block per 32 of K,
// contiguous, each a multiple of 64 bytes. "Line (g, v)" is 64 bytes whose byte [l*4 + j] belongs
// to row v*16 + l and k = 4g + j.
enum class WeightFormat : uint8_t {
  kQ4_0,   // 8 lines (g < 4): low nibble k, high nibble k + 16; then fp16 d[32]. value d*(q-8)
  kQ4_1,   // the same lines; fp16 d[32], fp16 m[32]. value d*q+m
  kMXFP4,  // the same lines, nibbles that stand for E2M1; fp16 d[32], half the scale of E8M0. value
           // d*(t[q]-16), t (kE2M1Codes of gemm_tile.h) 16 more than twice the values of E2M1
  kQ5_0,   // 8 lines; 16 x 64-bit masks of the fifth bits, [g < 8][v]; fp16 d[32]. value d*(q-16)
  kQ5_1,   // 8 lines; 16 masks; fp16 d[32], fp16 m[32]. value d*q+m
  kQ6,     // 8 lines: low nibbles as above; 4 lines of upper bits; fp16 d[2][32], of k < 16 and of
           // the others. value d*(q-32). Line (p < 2, v) of upper bits: byte [l*4 + j] holds bits 4
           // and 5 of k = 4g + j for g = p, p + 2, p + 4, p + 6, from its lowest bits up
  kQ8_0,   // 16 lines (g < 8) of q + 128; fp16 d[32]. value d*q
  kI8Row,  // 16 lines (g < 8) of q + 128; after the last block float d[32]: one scale per weight
           // row and one per activation row. value d*q
  kBf16Pairs,  // bfloat16 [16 pairs of k][32 rows][2], multiplied with activations in bfloat16;
               // only for tables that say so (GemmKernels::bf16_pairs)
  kF32,        // float [32 k][32 rows]
  kF16,        // IEEE half [32 k][32 rows], widened exactly when read
  kBf16,       // bfloat16 [32 k][32 rows], widened exactly when read
};
// Bytes of one block of a panel: 576, 640, 576, 704, 768, 896, 1088, 1024, 2048, 4096, 2048, 2048.
size_t BlockBytes(WeightFormat format);
// Maximum of K for sums over all of it: int32 holds 127 * 127 * K.
inline constexpr int32_t kMaxRowScaledCols = 65536;
// q formats and kBf16Pairs: activations must have been through quantize().
bool IsQuantized(WeightFormat format);
const char* WeightFormatName(WeightFormat format);  // "Q4_0", ..., "BF16"

// The values that share one scale of quantised activations. The greatest value determines the step
// of all, so one scale per row costs accuracy if a few channels are far greater than the others.
enum class ScalePer : uint8_t {
  kBlock,  // 32 values: the formats of files
  kRow,    // a whole row: kI8Row
  kNone,   // values in bfloat16 have none: kBf16Pairs, PackedMatrix::in_bf16
};
// Those of a format, for tables without bf16_tiles.
ScalePer ActivationScale(WeightFormat format);
// Whether weights have a scale per block: formats that bf16_tiles multiplies in bfloat16.
bool HasBlockScales(WeightFormat format);

// A packed matrix in someone else's memory. Immutable, any thread.
struct PackedMatrix {
  const uint8_t* data = nullptr;  // panels, ascending; 64-byte aligned
  WeightFormat format = WeightFormat::kF32;
  int32_t rows = 0;       // N padded to kPanelRows
  int32_t used_rows = 0;  // N; the padding rows are zero weights and never win an argmax
  int32_t cols = 0;       // K, a multiple of kQuantBlock
  // Weights of the activations' outliers in fp16: [panels][outlier_count][kPanelRows]. Null for a
  // matrix whose activations have none.
  const uint16_t* outliers = nullptr;
  // Whether a format with a scale per block is multiplied with activations in bfloat16
  // (ScalePer::kNone): GemmKernels::bf16_tiles. Such a matrix has no outliers.
  bool in_bf16 = false;
};
// The scales of the activations that the matrix is multiplied with.
ScalePer ActivationScale(const PackedMatrix& matrix);
size_t PanelBytes(const PackedMatrix& matrix);
int32_t PanelCount(const PackedMatrix& matrix);

// M rows quantised to int8 per 32, in the order register tiles read them. The M rows are cut into
// equal tiles of at most tile_rows rows (TileCount, TileBegin); a tile that starts at row r0 with t
// rows keeps block b of its row r at index i = r0 * (cols/32) + b * t + (r - r0): q[32*i ..], d[i],
// s[i], minus*[i]. With ScalePer::kRow, d and minus128 have one element per row, at the row's
// index, and s and the other starts are null. With ScalePer::kNone, q holds bfloat16, two bytes a
// value (q[64*i ..]), and all else is null. A view: memory of QuantizedRowsBytes() (enough for
// each), 64-byte aligned, made by MakeQuantizedRows.
struct QuantizedRows {
  int8_t* q = nullptr;  // round to nearest even of x * (127 / max|x|)
  float* d = nullptr;   // max|x| / 127; NaN if the block holds a NaN, so that it reaches the output
  float* s = nullptr;   // d * sum(q), for formats with a minimum
  int32_t* minus8 = nullptr;     // -8 * sum(q): what integer sums of Q4_0 start from
  int32_t* minus16 = nullptr;    // -16 * sum(q): Q5_0, MXFP4
  int32_t* minus128 = nullptr;   // -128 * sum(q): Q8_0
  int32_t* minus32 = nullptr;    // -32 * sum(q) of each half of the block, at 2*i and 2*i + 1: Q6
  int32_t rows = 0;              // M; the tiling follows from it
  int32_t cols = 0;              // K, a multiple of kQuantBlock
  int32_t tile_rows = kMaxTile;  // kMaxTile, or what the table that will read them says
  ScalePer scale = ScalePer::kBlock;
  // Outlier columns, whose values are far greater than the others and would make the scales of
  // their blocks coarse. quantize() stores their values as floats and puts zero into the blocks.
  // With ScalePer::kBlock only. A product needs PackedMatrix::outliers for the same columns.
  // Source: Dettmers et al., LLM.int8(), 2022.
  const int32_t* outliers = nullptr;  // [outlier_count] ascending columns, in someone else's memory
  int32_t outlier_count = 0;          // 0..kMaxOutliers
  float* outlier_values = nullptr;    // [rows][kMaxOutliers]
};
size_t QuantizedRowsBytes(int32_t rows, int32_t cols);
QuantizedRows MakeQuantizedRows(std::byte* memory, int32_t rows, int32_t cols,
                                ScalePer scale = ScalePer::kBlock, int32_t tile_rows = kMaxTile);

// The tiling of M rows: equal tiles of at most `most` rows, the larger ones first.
// TileBegin(rows, TileCount(rows)) == rows.
int32_t TileCount(int32_t rows, int32_t most = kMaxTile);
int32_t TileBegin(int32_t rows, int32_t tile, int32_t most = kMaxTile);

// quantize(): rows of floats to QuantizedRows, with an RMSNorm before it if `norm_weight` is set.
// Row i of `out` comes from row (gather ? gather[i] : i) of x.
struct QuantizeArgs {
  const float* x = nullptr;  // [*][out.cols]
  size_t x_stride = 0;
  const int32_t* gather = nullptr;     // [out.rows] or null
  const float* norm_weight = nullptr;  // [out.cols] or null
  float norm_eps = 0.0f;
  QuantizedRows out;
};

// Operation applied to y = x * w + bias.
enum class Epilogue : uint8_t {
  kStore,   // out[m][n] = y
  kAdd,     // out[m][n] += y                            the residual stream
  kGelu,    // out[m][n] = gelu(y), the exact (erf) form  encoders
  kSwiGlu,  // out[m][16p + l] = silu(y[32p + l]) * y[32p + 16 + l], l < 16: gate and up interleaved
            // 16 + 16
  kGeGlu,   // the same with the tanh form of gelu
  kGeGluErf,       // the same with the exact form of gelu     encoders
  kSwiGluClamped,  // the same as (u + 1) * g * sigmoid(1.702 g), where g is y[32p + l], at most 7,
                   // and u is y[32p + 16 + l], from -7 to 7                            gpt-oss
  kArgmax,         // best[m] = greatest y and its n; out is not written, logits[m] is if given
};
bool IsGated(Epilogue epilogue);
// The constants of kSwiGluClamped.
inline constexpr float kClampedAlpha = 1.702f;
inline constexpr float kClampedLimit = 7.0f;

// Greatest logit so far and its row of weights; of equals the lowest id. Starts as below; stays so
// if every logit is NaN or -inf (a broken model: the caller must notice id == kNoArgmax).
inline constexpr int32_t kNoArgmax = 0x7fffffff;
struct ArgmaxState {
  float value = -__builtin_huge_valf();
  int32_t id = kNoArgmax;
};
// Merges the results of two workers; the order does not matter.
ArgmaxState MergeArgmax(const ArgmaxState& a, const ArgmaxState& b);

// Selects the inner loop. The bits are the same; tests and benches force one.
enum class GemmPath : uint8_t {
  kAuto,      // by the number of rows
  kDirect,    // unpack weights in registers, once per tile
  kUnpacked,  // unpack each panel once to u8 in scratch, then one loop for all formats
};

// A list of memory to prefetch during a matrix product.
//
// A product of many rows leaves the memory bus idle, and the attention after it waits for memory:
// the keys and values of a decoding sequence lie in runs of some kilobytes, too short for a core's
// own prefetchers to get up to speed. So the worker passes to the product the memory that it will
// read next, and the register tiles prefetch a few lines of it per block (a decode step of 8 to 10
// sequences becomes 1.01-1.06 x as fast on Zen 4).
//
// Owner: a worker of the pass; plain data, used by no other thread. Units: bytes, and cache lines
// of 64. It is a hint: it changes no result, and addresses are not checked, since a prefetch cannot
// fault.
struct Prefetch {
  struct Run {
    size_t offset;  // bytes from base
    int32_t lines;  // >= 1
  };
  const uint8_t* base = nullptr;
  const Run* runs = nullptr;
  int32_t count = 0;
  int32_t run = 0;   // the first that is not yet asked for,
  int32_t line = 0;  // from this line on
};

struct GemmArgs {
  PackedMatrix weight;

  // Activations: `x` if IsQuantized(weight.format), with scales according to ActivationScale, else
  // `x_f32`.
  QuantizedRows x;
  const float* x_f32 = nullptr;  // [rows][weight.cols]
  size_t x_stride = 0;
  int32_t rows = 0;  // M >= 1; equals x.rows for quantised formats

  Epilogue epilogue = Epilogue::kStore;
  const float* bias = nullptr;  // [weight.rows] in packed order, or null

  // kStore, kAdd, kGelu: [rows][>= weight.rows]; gated: [rows][>= weight.rows / 2]. Columns of
  // padding rows are written too. May be null for gated epilogues with `quantized`.
  float* out = nullptr;
  size_t out_stride = 0;

  // Gated epilogues: also (or only, if out is null) quantises the result for the next matrix, whose
  // K is weight.rows / 2, with scales per block or none. Set if quantized.q is; then ranges of
  // panels must begin even and end even.
  QuantizedRows quantized;

  // kArgmax: [rows], this worker's own; the caller initialises and merges.
  ArgmaxState* best = nullptr;
  // kArgmax: null, or per row null or [weight.rows] floats that receive the logits of this range of
  // panels.
  float* const* logits = nullptr;

  // The data that this worker will read after its range (its first panel of the next matrix), or
  // null: prefetched during the last panel.
  const uint8_t* next = nullptr;

  // Further data that it will read soon, or null; the call moves it on.
  Prefetch* ahead = nullptr;

  GemmPath path = GemmPath::kAuto;
};

// Whether so many activations in bfloat16 stay in a second cache of 2 MiB, which processors with a
// tile unit have, next to what else is in it. If not, the unit multiplies a chunk of K by
// PanelsInGroup() panels, 1 to 8, before the next chunk.
bool StaysInSecondCache(int32_t rows, int32_t cols);
int32_t PanelsInGroup(int32_t rows);

// Bytes of 64-byte aligned scratch per worker for any call with at most these rows and columns.
size_t GemmScratchBytes(int32_t max_rows, int32_t max_cols);

// The parts of that scratch, as the kernels use them. K is unpacked in chunks of this many blocks,
// 256 KiB in each form, which fits in an L2 cache.
inline constexpr int kChunkBlocksInt8 = 256;
inline constexpr int kChunkBlocksBf16 = 9;
inline constexpr int kChunkBlocksFloat = 64;
struct GemmScratch {
  float* tile;     // [kUnitTile][32]: a register tile on its way to the epilogue
  float* rows;     // [PanelsInGroup()][M + kUnitTile][32]: sums between chunks of K
  float* gated;    // [M + kUnitTile][32]: two gated panels, to be quantised together
  uint8_t* panel;  // unpacked chunk: [block][8][32 rows][4] u8, or float [k][32], or blocks of
                   // kBf16Pairs
  float* scales;   // of the chunk: [block][d[32], m[32]]
};
GemmScratch CarveGemmScratch(std::byte* scratch, int32_t rows, int32_t cols);

// A worker's contiguous share of a matrix's panels: [begin, end), borders on multiples of `granule`
// panels (2 where GemmArgs::quantized is used), as even as that allows.
struct PanelRange {
  int32_t begin;
  int32_t end;
};
PanelRange WorkerPanels(const PackedMatrix& matrix, int32_t worker, int32_t workers,
                        int32_t granule);

// One set per instruction set. Pointers are never null.
struct GemmKernels {
  const char* name;  // which files wrote it: "scalar", "avx2", "avxvnni", "avx512vnni", ...
  bool bf16_pairs;   // whether gemm() takes WeightFormat::kBf16Pairs
  bool bf16_tiles;   // whether it sums them in the order of a tile unit, and takes in_bf16

  // QuantizedRows::tile_rows that gemm() multiplies fastest; it takes kMaxTile too.
  int32_t (*tile_rows)(int32_t rows, ScalePer scale);

  // Quantises rows [row_begin, row_end) of args.out. Ranges of different workers write disjoint
  // bytes. RMSNorm: ((x * (1 / sqrt(mean(x^2) + eps))) * weight), squares summed by FMA in 16 lanes
  // (lane = index mod 16), lanes added in halves (8, 4, 2, 1).
  void (*quantize)(const QuantizeArgs& args, int32_t row_begin, int32_t row_end);

  // The product over panels [panel_begin, panel_end), all rows. An empty range does nothing.
  void (*gemm)(const GemmArgs& args, int32_t panel_begin, int32_t panel_end, std::byte* scratch);

  // A gated epilogue of one row that kStore wrote: out[i], i < count, from 2 * count columns of y.
  // The bits are those of the epilogue, so that something can be added to sums of some rows of a
  // step without a change of the others. `count` is a multiple of 16; out does not overlap y.
  void (*gate)(Epilogue epilogue, const float* y, int32_t count, float* out);
};

// Filled in cpu/<isa>/gemm_*.cc. Call only on a machine that has the instructions.
const GemmKernels& ScalarGemmKernels();
const GemmKernels& ScalarBf16TilesGemmKernels();
// The scalar table that gives the bits of `kernels`: the second one if that has bf16_tiles.
const GemmKernels& OracleOf(const GemmKernels& kernels);
const GemmKernels& Avx2GemmKernels();
const GemmKernels& AvxVnniGemmKernels();
const GemmKernels& Avx512VnniGemmKernels();
const GemmKernels& Avx512Bf16GemmKernels();
const GemmKernels& AmxGemmKernels();
const GemmKernels& NeonDotGemmKernels();
const GemmKernels& I8mmGemmKernels();

}  // namespace tutti::kernels
