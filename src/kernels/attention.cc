#include "kernels/attention.h"

#include "kernels/aligned_buffer.h"

namespace tutti::kernels {
KvLayout MakeKvLayout(KvFormat format, int32_t kv_heads, int32_t head_dim) {
  const size_t matrix =
      RoundUpToLine(static_cast<size_t>(head_dim) * kBlockTokens * KvValueBytes(format));
  KvLayout layout{};
  layout.format = format;
  layout.kv_heads = kv_heads;
  layout.head_dim = head_dim;
  layout.v_offset = matrix;
  layout.head_bytes = 2 * matrix;
  if (HasScales(format)) {
    layout.k_scale_offset = layout.head_bytes;
    layout.v_scale_offset = layout.k_scale_offset + kBlockTokens * sizeof(float);
    layout.head_bytes = layout.v_scale_offset + kBlockTokens * sizeof(float);
  }
  layout.layer_bytes = layout.head_bytes * static_cast<size_t>(kv_heads);
  return layout;
}

const char* AttentionShapeFault(const AttentionShape& shape) {
  if (shape.kv_heads < 1 || shape.heads < 1) return "needs at least one query and one kv head";
  if (shape.heads % shape.kv_heads != 0) return "query heads are not a multiple of the kv heads";
  if (shape.heads / shape.kv_heads > 128) return "more than 128 query heads per kv head";
  if (shape.head_dim < 16 || shape.head_dim > kMaxHeadDim || shape.head_dim % 16 != 0) {
    return "head dimension is not a multiple of 16 from 16 to 512";
  }
  if (!(shape.scale > 0)) return "score scale is not positive";
  if (!(shape.softcap >= 0 && shape.softcap <= 1e6f)) return "soft cap of scores is not 0 to 10^6";
  if (shape.rope_mode != RopeMode::kNone &&
      (shape.rope_dims < 2 || shape.rope_dims > shape.head_dim || shape.rope_dims % 2 != 0)) {
    return "rotated dimensions are not an even number within the head";
  }
  return nullptr;
}

}  // namespace tutti::kernels
