#include "kernels/span_attention.h"

namespace tutti::kernels {

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

}  // namespace tutti::kernels
