#include "kernels/gemm.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tutti::kernels {
namespace {

constexpr size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What a format's weights are multiplied with.
enum class Products : uint8_t {
  kInt8Blocks,  // int8, and a scale per block on both sides
  kInt8Rows,    // int8, and a scale per row on both sides
  kBf16,        // bfloat16
  kFloats,      // activations as they are
};

// In the order of WeightFormat.
constexpr struct {
  const char* name;
  size_t block_bytes;
  Products products;
} kFormats[] = {
    {"Q4_0", 512 + 64, Products::kInt8Blocks},
    {"Q4_1", 512 + 128, Products::kInt8Blocks},
    {"MXFP4", 512 + 64, Products::kInt8Blocks},
    {"Q5_0", 512 + 128 + 64, Products::kInt8Blocks},
    {"Q5_1", 512 + 128 + 128, Products::kInt8Blocks},
    {"Q6", 512 + 256 + 128, Products::kInt8Blocks},
    {"Q8_0", 1024 + 64, Products::kInt8Blocks},
    {"I8_ROW", 1024, Products::kInt8Rows},
    {"BF16x2", 2048, Products::kBf16},
    {"F32", 4096, Products::kFloats},
    {"F16", 2048, Products::kFloats},
    {"BF16", 2048, Products::kFloats},
};
static_assert(std::size(kFormats) == static_cast<size_t>(WeightFormat::kBf16) + 1);

const auto& TraitsOf(WeightFormat format) {
  CHECK(static_cast<size_t>(format) < std::size(kFormats))
      << "weight format " << static_cast<int>(format);
  return kFormats[static_cast<size_t>(format)];
}

}  // namespace

size_t BlockBytes(WeightFormat format) { return TraitsOf(format).block_bytes; }

bool IsQuantized(WeightFormat format) { return TraitsOf(format).products != Products::kFloats; }

ScalePer ActivationScale(WeightFormat format) {
  switch (TraitsOf(format).products) {
    case Products::kBf16:
      return ScalePer::kNone;
    case Products::kInt8Rows:
      return ScalePer::kRow;
    case Products::kInt8Blocks:
    case Products::kFloats:
      break;
  }
  return ScalePer::kBlock;
}

bool HasBlockScales(WeightFormat format) {
  return TraitsOf(format).products == Products::kInt8Blocks;
}

ScalePer ActivationScale(const PackedMatrix& matrix) {
  return matrix.in_bf16 ? ScalePer::kNone : ActivationScale(matrix.format);
}

const char* WeightFormatName(WeightFormat format) {
  const auto index = static_cast<size_t>(format);
  return index < std::size(kFormats) ? kFormats[index].name : "?";
}

size_t PanelBytes(const PackedMatrix& matrix) {
  const size_t tail = matrix.format == WeightFormat::kI8Row ? kPanelRows * sizeof(float) : 0;
  return BlockBytes(matrix.format) * static_cast<size_t>(matrix.cols / kQuantBlock) + tail;
}

int32_t PanelCount(const PackedMatrix& matrix) { return matrix.rows / kPanelRows; }

size_t QuantizedRowsBytes(int32_t rows, int32_t cols) {
  const size_t blocks = static_cast<size_t>(rows) * static_cast<size_t>(cols / kQuantBlock);
  const size_t in_int8 = RoundUp(blocks * kQuantBlock, 64) +
                         7 * RoundUp(blocks * sizeof(float), 64) +
                         RoundUp(static_cast<size_t>(rows) * kMaxOutliers * sizeof(float), 64);
  return std::max(in_int8, blocks * kQuantBlock * sizeof(uint16_t));
}

QuantizedRows MakeQuantizedRows(std::byte* memory, int32_t rows, int32_t cols, ScalePer scale,
                                int32_t tile_rows) {
  CHECK_EQ(cols % kQuantBlock, 0);
  CHECK_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  const size_t blocks = static_cast<size_t>(rows) * static_cast<size_t>(cols / kQuantBlock);
  const size_t scales = scale == ScalePer::kRow ? static_cast<size_t>(rows) : blocks;
  const size_t part = RoundUp(scales * sizeof(float), 64);
  QuantizedRows out;
  out.q = reinterpret_cast<int8_t*>(memory);
  out.rows = rows;
  out.cols = cols;
  out.scale = scale;
  out.tile_rows = tile_rows;
  if (scale == ScalePer::kNone) return out;
  memory += RoundUp(blocks * kQuantBlock, 64);
  out.d = reinterpret_cast<float*>(memory);
  out.minus128 = reinterpret_cast<int32_t*>(memory + part);
  if (scale == ScalePer::kBlock) {
    out.s = reinterpret_cast<float*>(memory + 2 * part);
    out.minus8 = reinterpret_cast<int32_t*>(memory + 3 * part);
    out.minus16 = reinterpret_cast<int32_t*>(memory + 4 * part);
    out.minus32 = reinterpret_cast<int32_t*>(memory + 5 * part);
    out.outlier_values = reinterpret_cast<float*>(memory + 7 * part);
  }
  return out;
}

int32_t TileCount(int32_t rows, int32_t most) { return (rows + most - 1) / most; }

int32_t TileBegin(int32_t rows, int32_t tile, int32_t most) {
  const int32_t count = TileCount(rows, most);
  const int32_t small = rows / count;
  const int32_t larger = rows % count;  // number of tiles that have one row more
  return tile * small + std::min(tile, larger);
}

bool IsGated(Epilogue epilogue) {
  return epilogue == Epilogue::kSwiGlu || epilogue == Epilogue::kGeGlu ||
         epilogue == Epilogue::kGeGluErf || epilogue == Epilogue::kSwiGluClamped;
}

ArgmaxState MergeArgmax(const ArgmaxState& a, const ArgmaxState& b) {
  if (a.value > b.value) return a;
  if (b.value > a.value) return b;
  return a.id < b.id ? a : b;
}

const GemmKernels& OracleOf(const GemmKernels& kernels) {
  return kernels.bf16_tiles ? ScalarBf16TilesGemmKernels() : ScalarGemmKernels();
}

namespace {

// Bytes of activations in bfloat16 that stay in a second cache of 2 MiB next to what else is in it,
// and of the sums of a group of panels.
constexpr int64_t kNearActivations = 3 << 19;
constexpr int64_t kGroupSums = 512 << 10;
constexpr int32_t kMostInGroup = 8;

struct ScratchSizes {
  size_t tile, rows, gated, panel, scales;
};

ScratchSizes SizesFor(int32_t rows, int32_t cols) {
  const int32_t blocks = cols / kQuantBlock;
  // Whichever form is larger: u8 lines of many blocks, or floats of few.
  const size_t int8_blocks = static_cast<size_t>(std::min(blocks, kChunkBlocksInt8));
  const size_t float_blocks = static_cast<size_t>(std::min(blocks, kChunkBlocksFloat));
  const size_t panel_sums = static_cast<size_t>(rows + kUnitTile) * kPanelRows * sizeof(float);
  // What any smaller number of rows and columns may need.
  const size_t group_sums = std::min(
      kMostInGroup * panel_sums,
      static_cast<size_t>(kGroupSums) + kMostInGroup * kUnitTile * kPanelRows * sizeof(float));
  return {kUnitTile * kPanelRows * sizeof(float), std::max(panel_sums, group_sums), panel_sums,
          std::max(int8_blocks * 1024, float_blocks * 4096),
          int8_blocks * 2 * kPanelRows * sizeof(float)};
}

}  // namespace

bool StaysInSecondCache(int32_t rows, int32_t cols) {
  return int64_t{2} * rows * cols <= kNearActivations;
}

int32_t PanelsInGroup(int32_t rows) {
  const int64_t panel_sums = int64_t{rows} * kPanelRows * static_cast<int64_t>(sizeof(float));
  return static_cast<int32_t>(std::clamp<int64_t>(kGroupSums / panel_sums, 1, kMostInGroup));
}

size_t GemmScratchBytes(int32_t max_rows, int32_t max_cols) {
  const ScratchSizes sizes = SizesFor(max_rows, max_cols);
  return sizes.tile + sizes.rows + sizes.gated + sizes.panel + sizes.scales;
}

GemmScratch CarveGemmScratch(std::byte* scratch, int32_t rows, int32_t cols) {
  const ScratchSizes sizes = SizesFor(rows, cols);
  GemmScratch out;
  out.tile = reinterpret_cast<float*>(scratch);
  scratch += sizes.tile;
  out.rows = reinterpret_cast<float*>(scratch);
  scratch += sizes.rows;
  out.gated = reinterpret_cast<float*>(scratch);
  scratch += sizes.gated;
  out.panel = reinterpret_cast<uint8_t*>(scratch);
  scratch += sizes.panel;
  out.scales = reinterpret_cast<float*>(scratch);
  return out;
}

PanelRange WorkerPanels(const PackedMatrix& matrix, int32_t worker, int32_t workers,
                        int32_t granule) {
  CHECK(worker >= 0 && worker < workers && granule >= 1);
  const int64_t panels = PanelCount(matrix);
  const int64_t units = (panels + granule - 1) / granule;
  const int64_t begin = units * worker / workers * granule;
  const int64_t end = units * (worker + 1) / workers * granule;
  return {static_cast<int32_t>(std::min(begin, panels)),
          static_cast<int32_t>(std::min(end, panels))};
}

}  // namespace tutti::kernels
