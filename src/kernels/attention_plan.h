// Plans one step's attention: the items, and the order in which workers should take them.
//
// Pure function of the sequences and the number of workers; the plan decides who computes what and
// when, never a bit of the result (see attention.h). Owner: the runner, one per engine, rebuilt
// every step on the engine thread; read by all workers during the step. Build reuses its storage,
// so a steady state allocates nothing.
//
// Three things happen here:
//   - sequences with many new rows (prefill) are cut into tiles of queries,
//     all heads of a kv head together;
//   - the contexts of sequences with few new rows (decode) are cut at chunk borders
//     when there are too few of them to fill the workers;
//   - chunks whose blocks are the same for several decoding sequences (a shared prefix)
//     become one item with the rows of all of them: those keys and values are read once.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/gemm.h"

namespace tutti::kernels {

// One sequence's new rows in a step. Rows of one sequence are adjacent, in order of position.
struct AttentionSequence {
  const int32_t* blocks;  // block table from position 0, at least (start + rows + 31) / 32 ids;
                          // outlives the step
  int32_t start;          // tokens already in the cache = position of the first new row
  int32_t rows;           // new rows, >= 1
  int32_t first_row;      // index of the first in the batch's matrices
  // Its rows see each other both ways; start is 0, and all of the sequence is in the step.
  bool both_ways = false;
};

class AttentionPlan {
 public:
  // `workers` >= 1. `share_prefixes` off: every sequence reads its own blocks (for comparison).
  // `window`: that of all layers of this plan (AttentionArgs::window); chunks
  // behind it have no items, and blocks behind it need no id.
  void Build(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int workers,
             bool share_prefixes = true, AttentionWindow window = {});

  int32_t items() const { return static_cast<int32_t>(items_.size()); }
  // Valid until the next Build. Take items in order 0..items()-1 (longest first).
  AttentionWork work() { return {items_.data(), segments_.data(), groups_.data()}; }
  // Place of every row of the batch, for rope_append; as many as the sequences have rows.
  std::span<const RowPlace> places() const { return places_; }
  // Size of AttentionArgs::partials.
  size_t partial_floats() const { return partial_floats_; }
  // Sum of the items' costs.
  double cost() const { return cost_; }

 private:
  struct SharedChunk {
    size_t sequence;
    int32_t chunk;
    auto operator<=>(const SharedChunk&) const = default;
  };

  bool Splittable(const AttentionSequence& sequence) const;
  void PlaceRows(std::span<const AttentionSequence> sequences);
  void ShareChunks(std::span<const AttentionSequence> sequences);
  void EmitOwnChunks(size_t index, const AttentionSequence& sequence, double limit);
  void EmitTiles(const AttentionSequence& sequence, double limit);
  void Emit(int32_t segment_begin, int32_t segment_count, int32_t chunk_begin, int32_t chunk_end,
            double cost);
  int32_t GroupOf(size_t sequence_index, const AttentionSequence& sequence);

  // First chunk that a query at `position`, or a later one, sees.
  int32_t FirstChunk(int32_t position) const;

  AttentionWindow window_;
  int32_t kv_heads_ = 0;
  int32_t heads_per_kv_ = 0;
  int32_t head_dim_ = 0;
  std::vector<AttentionItem> items_;
  std::vector<AttentionSegment> segments_;
  std::vector<AttentionGroup> groups_;
  std::vector<RowPlace> places_;
  std::vector<int32_t> sequence_groups_;  // first group of a sequence, or -1
  std::vector<SharedChunk> shared_;       // chunks that shared items cover, sorted
  std::vector<size_t> members_;           // sequences that reach the chunk being compared
  size_t partial_floats_ = 0;
  double cost_ = 0;
};

// Predicts which keys and values a worker will read in the next attention, for Prefetch. Pure; any
// thread. Lists what worker `worker` of `workers` is likely to read in every layer's attention, as
// offsets from the layer's base. Idle workers take items in order, so each gets about every
// workers-th of the `items`. Fills `runs` from the front until it is full or has `max_lines` cache
// lines; returns the number of runs filled. Only the strides of `layer` are used. `window`: as for
// Build.
int32_t ListAttentionReads(const AttentionWork& work, int32_t items, const KvLayout& layout,
                           const KvLayerView& layer, int worker, int workers, int32_t max_lines,
                           std::span<Prefetch::Run> runs, AttentionWindow window = {});

}  // namespace tutti::kernels
