#include "kernels/attention_reads.h"

#include <algorithm>

#include "kernels/aligned_buffer.h"

namespace tutti::kernels {
namespace {

int32_t Lines(size_t bytes) { return static_cast<int32_t>((bytes + kCacheLine - 1) / kCacheLine); }

// Lines of one head that hold its first `keys` keys and values. Values follow one another; keys lie
// dimension by dimension, so that few of them touch as many lines as all.
int32_t HeadLines(const KvLayout& layout, int32_t keys) {
  if (keys >= kBlockTokens) return Lines(layout.head_bytes);
  const size_t value_bytes = static_cast<size_t>(layout.head_dim) * KvValueBytes(layout.format);
  const size_t values = static_cast<size_t>(keys + keys % 2);  // with scales: two to a lane
  return Lines(layout.v_offset + values * value_bytes);
}

}  // namespace

int32_t ListAttentionReads(const AttentionWork& work, int32_t items, const KvLayout& layout,
                           const KvLayerView& layer, int worker, int workers, int32_t max_lines,
                           std::span<Prefetch::Run> runs) {
  size_t count = 0;
  for (int32_t i = worker; i < items; i += workers) {
    const AttentionItem& item = work.items[i];
    const AttentionSegment& segment = work.segments[item.segment_begin];
    const int32_t end =
        std::min(item.chunk_end * kChunkTokens, segment.start + segment.rows);  // of its keys
    for (int32_t key = item.chunk_begin * kChunkTokens; key < end; key += kBlockTokens) {
      const int32_t lines = HeadLines(layout, end - key);
      if (count == runs.size() || lines > max_lines) return static_cast<int32_t>(count);
      max_lines -= lines;
      const auto block = static_cast<size_t>(segment.blocks[key / kBlockTokens]);
      runs[count++] = {
          block * layer.block_stride + static_cast<size_t>(item.kv_head) * layer.head_stride,
          lines};
    }
  }
  return static_cast<int32_t>(count);
}

}  // namespace tutti::kernels
