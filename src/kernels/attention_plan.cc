#include "kernels/attention_plan.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/aligned_buffer.h"

namespace tutti::kernels {
namespace {

// Sequences with at most this many new rows have their contexts split and shared; others are tiled
// by queries.
constexpr int32_t kFewRows = 8;
// Queries per tile of a long prompt, at most and at least. More rows per item use each converted
// key tile longer; fewer give more items to spread.
constexpr int32_t kMaxTileQueries = 32;
constexpr int32_t kMinTileQueries = 16;
// How many items per worker make an order by size come out even.
constexpr double kItemsPerWorker = 3.0;
// Fixed cost of a block (reading it), in units of one row times one block.
constexpr double kBlockCost = 4.0;

int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }

double Cost(int32_t rows, int32_t blocks) {
  return (static_cast<double>(rows) + kBlockCost) * static_cast<double>(blocks);
}

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

int32_t AttentionPlan::FirstChunk(int32_t position) const {
  return FirstKey(position, window_) / kChunkTokens;
}

void AttentionPlan::PlaceRows(std::span<const AttentionSequence> sequences) {
  size_t rows = 0;
  for (const AttentionSequence& sequence : sequences) {
    rows = std::max(rows,
                    static_cast<size_t>(sequence.first_row) + static_cast<size_t>(sequence.rows));
  }
  places_.assign(rows, RowPlace{0, -1});
  for (const AttentionSequence& sequence : sequences) {
    for (int32_t i = 0; i < sequence.rows; ++i) {
      const int32_t position = sequence.start + i;
      places_[static_cast<size_t>(sequence.first_row + i)] = {
          position, sequence.blocks[position / kBlockTokens]};
    }
  }
}

// Groups of a sequence whose context is computed in pieces; created at its first piece.
int32_t AttentionPlan::GroupOf(size_t sequence_index, const AttentionSequence& sequence) {
  int32_t& group = sequence_groups_[sequence_index];
  if (group >= 0) return group;
  group = static_cast<int32_t>(groups_.size());
  const int32_t chunks = CeilDiv(sequence.start + sequence.rows, kChunkTokens);
  const size_t state = static_cast<size_t>(head_dim_ + kPartialExtra);
  for (int32_t head = 0; head < kv_heads_; ++head) {
    groups_.push_back({static_cast<int64_t>(partial_floats_), chunks, 0, 0, 0});
    partial_floats_ +=
        static_cast<size_t>(chunks) * static_cast<size_t>(sequence.rows * heads_per_kv_) * state;
  }
  return group;
}

// One item per kv head over segments_[segment_begin, +count), which hold `rows` query rows times
// heads in all.
void AttentionPlan::Emit(int32_t segment_begin, int32_t segment_count, int32_t chunk_begin,
                         int32_t chunk_end, double cost) {
  for (int32_t head = 0; head < kv_heads_; ++head) {
    items_.push_back(
        {head, chunk_begin, chunk_end, segment_begin, segment_count, static_cast<float>(cost)});
    cost_ += cost;
    for (int32_t s = segment_begin; s < segment_begin + segment_count; ++s) {
      const int32_t group = segments_[static_cast<size_t>(s)].group;
      if (group >= 0) ++groups_[static_cast<size_t>(group + head)].items;
    }
  }
}

// Finds chunks whose blocks several decoding sequences have in common. A member set can only shrink
// with the chunk index for real prefixes, but nothing depends on that: every chunk is compared for
// itself.
void AttentionPlan::ShareChunks(std::span<const AttentionSequence> sequences) {
  const auto chunk_blocks = [&](size_t s, int32_t chunk) {
    return sequences[s].blocks + static_cast<ptrdiff_t>(chunk) * kChunkBlocks;
  };
  for (int32_t chunk = 0;; ++chunk) {
    members_.clear();
    size_t reaching = 0;
    for (size_t s = 0; s < sequences.size(); ++s) {
      // The first of its rows must see the chunk to its end.
      if (!Splittable(sequences[s]) || (chunk + 1) * kChunkTokens > sequences[s].start + 1)
        continue;
      ++reaching;
      if (chunk >= FirstChunk(sequences[s].start)) members_.push_back(s);
    }
    if (reaching < 2) return;
    std::sort(members_.begin(), members_.end(), [&](size_t a, size_t b) {
      const int32_t* left = chunk_blocks(a, chunk);
      const int32_t* right = chunk_blocks(b, chunk);
      const auto [l, r] = std::mismatch(left, left + kChunkBlocks, right);
      return l == left + kChunkBlocks ? a < b : *l < *r;
    });
    for (size_t begin = 0; begin < members_.size();) {
      size_t end = begin + 1;
      int32_t rows = sequences[members_[begin]].rows * heads_per_kv_;
      while (end < members_.size() &&
             std::equal(chunk_blocks(members_[begin], chunk),
                        chunk_blocks(members_[begin], chunk) + kChunkBlocks,
                        chunk_blocks(members_[end], chunk))) {
        const int32_t more = sequences[members_[end]].rows * heads_per_kv_;
        if (rows + more > kMaxItemRows) break;
        rows += more;
        ++end;
      }
      if (end - begin >= 2) {
        const int32_t segment_begin = static_cast<int32_t>(segments_.size());
        for (size_t m = begin; m < end; ++m) {
          const AttentionSequence& sequence = sequences[members_[m]];
          segments_.push_back({sequence.blocks, sequence.start, sequence.rows, sequence.first_row,
                               GroupOf(members_[m], sequence)});
          shared_.push_back({members_[m], chunk});
        }
        Emit(segment_begin, static_cast<int32_t>(end - begin), chunk, chunk + 1,
             Cost(rows, kChunkBlocks));
      }
      begin = end;
    }
  }
}

bool AttentionPlan::Splittable(const AttentionSequence& sequence) const {
  return sequence.rows <= kFewRows && sequence.rows * heads_per_kv_ <= kMaxItemRows;
}

// The chunks of a decoding sequence that are its own, in pieces of at most `limit` cost if limit >
// 0.
void AttentionPlan::EmitOwnChunks(size_t index, const AttentionSequence& sequence, double limit) {
  const int32_t chunks = CeilDiv(sequence.start + sequence.rows, kChunkTokens);
  const int32_t total_blocks = CeilDiv(sequence.start + sequence.rows, kBlockTokens);
  const int32_t rows = sequence.rows * heads_per_kv_;
  const auto is_shared = [&](int32_t chunk) {
    return std::binary_search(shared_.begin(), shared_.end(), SharedChunk{index, chunk});
  };
  int32_t segment = -1;
  const int32_t first = FirstChunk(sequence.start);
  for (int32_t begin = first; begin < chunks;) {
    if (is_shared(begin)) {
      ++begin;
      continue;
    }
    int32_t end = begin + 1;
    while (end < chunks && !is_shared(end)) ++end;
    const int32_t blocks = std::min(end * kChunkBlocks, total_blocks) - begin * kChunkBlocks;
    int32_t pieces = 1;
    if (limit > 0) {
      pieces = static_cast<int32_t>(
          std::clamp(Cost(rows, blocks) / limit + 0.999, 1.0, 1.0 * (end - begin)));
    }
    const int32_t piece_chunks = CeilDiv(end - begin, pieces);
    const bool whole = piece_chunks == chunks - first;
    if (segment < 0) {
      segment = static_cast<int32_t>(segments_.size());
      segments_.push_back({sequence.blocks, sequence.start, sequence.rows, sequence.first_row,
                           whole ? -1 : GroupOf(index, sequence),
                           sequence.both_ways ? sequence.rows : 0});
    }
    for (int32_t chunk = begin; chunk < end; chunk += piece_chunks) {
      const int32_t chunk_end = std::min(chunk + piece_chunks, end);
      const int32_t piece_blocks =
          std::min(chunk_end * kChunkBlocks, total_blocks) - chunk * kChunkBlocks;
      Emit(segment, 1, chunk, chunk_end, Cost(rows, piece_blocks));
    }
    begin = end;
  }
}

void AttentionPlan::EmitTiles(const AttentionSequence& sequence, double limit) {
  int32_t tile = std::min(kMaxTileQueries, std::max(1, kMaxItemRows / heads_per_kv_));
  const int32_t last_blocks = CeilDiv(sequence.start + sequence.rows, kBlockTokens);
  while (limit > 0 && tile / 2 >= kMinTileQueries &&
         Cost(tile * heads_per_kv_, last_blocks) > limit)
    tile /= 2;
  for (int32_t row = 0; row < sequence.rows; row += tile) {
    const int32_t rows = std::min(tile, sequence.rows - row);
    const int32_t begin = static_cast<int32_t>(segments_.size());
    segments_.push_back({sequence.blocks, sequence.start + row, rows, sequence.first_row + row, -1,
                         sequence.both_ways ? sequence.rows : 0});
    const int32_t end_position = sequence.both_ways ? sequence.rows : sequence.start + row + rows;
    const int32_t first_chunk = FirstChunk(sequence.start + row);
    Emit(begin, 1, first_chunk, CeilDiv(end_position, kChunkTokens),
         Cost(rows * heads_per_kv_,
              CeilDiv(end_position, kBlockTokens) - first_chunk * kChunkBlocks));
  }
}

void AttentionPlan::Build(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                          int workers, bool share_prefixes, AttentionWindow window) {
  CHECK(AttentionShapeFault(shape) == nullptr) << AttentionShapeFault(shape);
  CHECK_GE(workers, 1);
  window_ = window;
  kv_heads_ = shape.kv_heads;
  heads_per_kv_ = shape.heads / shape.kv_heads;
  head_dim_ = shape.head_dim;
  items_.clear();
  segments_.clear();
  groups_.clear();
  shared_.clear();
  sequence_groups_.assign(sequences.size(), -1);
  partial_floats_ = 0;
  cost_ = 0;
  PlaceRows(sequences);

  double total = 0;
  for (const AttentionSequence& sequence : sequences) {
    CHECK(sequence.rows >= 1 && sequence.start >= 0)
        << sequence.rows << " rows at " << sequence.start;
    CHECK(!sequence.both_ways || sequence.start == 0) << sequence.start;
    // Causal: a long prompt's rows see half of its own tokens on average.
    const int32_t seen = sequence.both_ways ? sequence.rows : CeilDiv(sequence.rows, 2);
    const int32_t blocks = CeilDiv(sequence.start + seen, kBlockTokens) + 1 -
                           FirstChunk(sequence.start) * kChunkBlocks;
    total += Cost(sequence.rows * heads_per_kv_, blocks) * kv_heads_;
  }
  const double limit = workers > 1 ? total / (workers * kItemsPerWorker) : 0;

  if (share_prefixes) {
    ShareChunks(sequences);
    std::sort(shared_.begin(), shared_.end());
  }
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (Splittable(sequences[s])) {
      EmitOwnChunks(s, sequences[s], limit);
    } else {
      EmitTiles(sequences[s], limit);
    }
  }
  for (AttentionGroup& group : groups_) group.unfinished = group.items;
  // Longest first, so that the last items to be taken are small. A total order: the same on every
  // run.
  std::sort(items_.begin(), items_.end(), [](const AttentionItem& a, const AttentionItem& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.segment_begin != b.segment_begin) return a.segment_begin < b.segment_begin;
    if (a.chunk_begin != b.chunk_begin) return a.chunk_begin < b.chunk_begin;
    return a.kv_head < b.kv_head;
  });
}

int32_t ListAttentionReads(const AttentionWork& work, int32_t items, const KvLayout& layout,
                           const KvLayerView& layer, int worker, int workers, int32_t max_lines,
                           std::span<Prefetch::Run> runs, AttentionWindow window) {
  size_t count = 0;
  for (int32_t i = worker; i < items; i += workers) {
    const AttentionItem& item = work.items[i];
    const AttentionSegment& segment = work.segments[item.segment_begin];
    const int32_t end =
        std::min(item.chunk_end * kChunkTokens, segment.start + segment.rows);  // of its keys
    const int32_t first = FirstKey(segment.start, window) / kBlockTokens * kBlockTokens;
    for (int32_t key = std::max(item.chunk_begin * kChunkTokens, first); key < end;
         key += kBlockTokens) {
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
