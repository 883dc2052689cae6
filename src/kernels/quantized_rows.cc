#include "kernels/quantized_rows.h"

#include <cstring>

#include "base/check.h"

namespace tutti::kernels {
namespace {

// Where block 0 of a row lies, and the distance to its next block, in blocks.
struct RowOfTile {
  size_t first;
  size_t step;
};
RowOfTile PlaceOfRow(const QuantizedRows& rows, int32_t row) {
  const int32_t count = TileCount(rows.rows, rows.tile_rows);
  const int32_t small = rows.rows / count;
  const int32_t larger = rows.rows % count;
  const int32_t in_larger = larger * (small + 1);
  const int32_t tile = row < in_larger ? row / (small + 1) : larger + (row - in_larger) / small;
  const int32_t begin = TileBegin(rows.rows, tile, rows.tile_rows);
  const int32_t end = TileBegin(rows.rows, tile + 1, rows.tile_rows);
  const auto blocks = static_cast<size_t>(rows.cols / kQuantBlock);
  return {static_cast<size_t>(begin) * blocks + static_cast<size_t>(row - begin),
          static_cast<size_t>(end - begin)};
}

}  // namespace

void CopyQuantizedRow(const QuantizedRows& from, int32_t from_row, const QuantizedRows& to,
                      int32_t to_row) {
  CHECK(from.cols == to.cols && from.scale == to.scale);
  CHECK(from.outlier_count == 0 && to.outlier_count == 0);
  const RowOfTile source = PlaceOfRow(from, from_row), target = PlaceOfRow(to, to_row);
  const size_t bytes = kQuantBlock * (from.scale == ScalePer::kNone ? sizeof(uint16_t) : 1);
  size_t i = source.first, o = target.first;
  for (int32_t block = 0; block < from.cols / kQuantBlock; ++block) {
    std::memcpy(to.q + o * bytes, from.q + i * bytes, bytes);
    if (from.scale == ScalePer::kBlock) {
      to.d[o] = from.d[i];
      to.s[o] = from.s[i];
      to.minus8[o] = from.minus8[i];
      to.minus16[o] = from.minus16[i];
      to.minus128[o] = from.minus128[i];
      to.minus32[2 * o] = from.minus32[2 * i];
      to.minus32[2 * o + 1] = from.minus32[2 * i + 1];
    }
    i += source.step;
    o += target.step;
  }
  if (from.scale != ScalePer::kRow) return;
  to.d[to_row] = from.d[from_row];
  to.minus128[to_row] = from.minus128[from_row];
}

}  // namespace tutti::kernels
