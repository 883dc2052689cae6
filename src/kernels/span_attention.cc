#include "kernels/span_attention.h"

#include <algorithm>
#include <tuple>

namespace tutti::kernels {
namespace {

// Items per worker to aim for: with fewer the last one keeps the others waiting, with more nothing
// is gained.
constexpr int64_t kItemsPerWorker = 4;
// Multiply-adds of the smallest item: about two microseconds of one core with AVX-512, where
// fetching an item costs a tenth of one.
constexpr int64_t kLeastWork = 100'000;

int64_t Work(const SpanAttentionShape& shape, const SpanAttentionItem& item) {
  // Scores and values, and as much again as one key in eight dims for the exponential.
  const int64_t per_pair = 2 * shape.head_dim + 16;
  return static_cast<int64_t>(item.rows) * (item.query_end - item.query_begin) *
         (item.head_end - item.head_begin) * per_pair;
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

const char* SpanAttentionShapeFault(const SpanAttentionShape& shape) {
  if (shape.heads < 1) return "needs at least one head";
  if (shape.head_dim < 16 || shape.head_dim > 256 || shape.head_dim % 16 != 0) {
    return "head dimension is not a multiple of 16 from 16 to 256";
  }
  if (!(shape.scale > 0)) return "score scale is not positive";
  return nullptr;
}

size_t SpanAttentionScratchBytes(const SpanAttentionShape& shape) {
  // A tile's queries, dims by rows, and its scores, keys by rows.
  return static_cast<size_t>(shape.head_dim + kSpanChunkKeys) * kSpanTileRows * sizeof(float);
}

void PlanSpanAttention(const SpanAttentionShape& shape, std::span<const int32_t> offsets,
                       int workers, std::vector<SpanAttentionItem>& items) {
  items.clear();
  const auto whole = [&](size_t i) {
    const int32_t rows = offsets[i + 1] - offsets[i];
    return SpanAttentionItem{offsets[i], rows, 0, rows, 0, shape.heads};
  };
  int64_t total = 0;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) total += Work(shape, whole(i));
  const int64_t target = std::max(kLeastWork, CeilDivide(total, kItemsPerWorker * workers));

  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    SpanAttentionItem item = whole(i);
    if (item.rows == 0) continue;
    const int64_t heads = shape.heads;
    const int64_t parts = workers == 1 ? 1 : CeilDivide(Work(shape, item), target);
    const int64_t head_parts = std::min(parts, heads);
    const int64_t tiles = CeilDivide(item.rows, kSpanTileRows);
    const int64_t row_parts = std::min(CeilDivide(parts, head_parts), tiles);
    for (int64_t h = 0; h < head_parts; ++h) {
      item.head_begin = static_cast<int32_t>(heads * h / head_parts);
      item.head_end = static_cast<int32_t>(heads * (h + 1) / head_parts);
      for (int64_t r = 0; r < row_parts; ++r) {
        item.query_begin = static_cast<int32_t>(tiles * r / row_parts * kSpanTileRows);
        const int64_t end = tiles * (r + 1) / row_parts * kSpanTileRows;
        item.query_end = static_cast<int32_t>(std::min<int64_t>(end, item.rows));
        items.push_back(item);
      }
    }
  }
  std::sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return std::tuple(-Work(shape, a), a.first_row, a.head_begin, a.query_begin) <
           std::tuple(-Work(shape, b), b.first_row, b.head_begin, b.query_begin);
  });
}

}  // namespace tutti::kernels
