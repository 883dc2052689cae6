// Paged attention: the KV cache layout of one layer, RoPE + append, and attention over block
// tables.
//
// What: plain data and one table of function pointers per instruction set. Everything here is POD,
// so that the per-ISA translation units can include it without instantiating shared inline code.
// Owner: the runner owns the pool, the scratch and the plan; kernels own nothing and never
// allocate. Thread: SPMD. Any worker may call run_item() for any item and rope_append() for any
// range of rows, all at the same time; rope_append() of all rows of a layer must be complete before
// run_item() of that layer. Units: tokens and positions start at 0; strides of float matrices are
// in floats, strides and offsets of the cache in bytes. Errors: none. Shapes are checked where the
// model is loaded (AttentionShapeFault), ids where blocks are allocated.
//
// Bits: there is one arithmetic per (table, KvFormat). An output row depends only on its query row,
// its position and the cached keys and values before it (of a sequence that is seen both ways, of
// all its keys and values): never on the number of rows in the call,
// the tiling, the split over workers, the block ids, or the sequences that share its blocks. What
// makes it so:
//   - keys are taken in tiles of kBlockTokens aligned to position 0;
//   - values are summed in ascending order;
//   - the context is cut into chunks of kChunkTokens, always;
//   - each chunk starts from an empty softmax state, and chunk states are merged left to right,
//     whether one worker ran them all or each ran elsewhere;
//   - quantisation scales belong to one token and head (or one query row and head);
//     they never belong to a block;
//   - values that a row does not see are left out of its sums, not multiplied by 0: one may be a
//     NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace tutti::kernels {

// Tokens per independently computable piece of a context. Part of the arithmetic: changing it
// changes bits.
inline constexpr int kChunkTokens = 256;
inline constexpr int kChunkBlocks = kChunkTokens / kBlockTokens;

inline constexpr int kMaxHeadDim = 512;

// Rows (query x head of one kv head) one item may hold: what the scratch is sized for.
inline constexpr int kMaxItemRows = 192;

// How keys and values lie in the cache. A pool has one format, and a table understands kF32, kI8
// and its own native16 only (16-bit forms are shaped for the instruction that reads them).
enum class KvFormat : uint8_t {
  kF32,  // K [head_dim][32], V [32][head_dim], float: the oracle's
  kF16,  // the same in IEEE half precision
  kI16,  // K [head_dim/2][32][2], V [16][head_dim][2] int16, a float scale per token for each
  kI8,   // the same in int8
};
// Bytes of one element of a key or value, without its scale.
constexpr size_t KvValueBytes(KvFormat format) {
  return format == KvFormat::kF32 ? 4 : format == KvFormat::kI8 ? 1 : 2;
}
// Whether a token has a scale for its keys and one for its values.
constexpr bool HasScales(KvFormat format) {
  return format == KvFormat::kI16 || format == KvFormat::kI8;
}

// Geometry of one layer's share of one block: kv_heads heads, each K | V | scales.
struct KvLayout {
  KvFormat format;
  int32_t kv_heads;
  int32_t head_dim;
  size_t v_offset;        // of V from the head's start (K is at 0); multiple of 64
  size_t k_scale_offset;  // HasScales(): float[32]; else 0 and absent
  size_t v_scale_offset;  // HasScales(): float[32]; else 0 and absent
  size_t head_bytes;      // of one head; multiple of 64
  size_t layer_bytes;     // kv_heads * head_bytes: what a pool reserves per block and layer
};
KvLayout MakeKvLayout(KvFormat format, int32_t kv_heads, int32_t head_dim);

// One layer of the pool: head h of block b starts at base + b * block_stride + h * head_stride.
// base and the strides are multiples of 64. What slots hold before they are written does not
// matter. Blocks of a head that follow one another (block_stride = head_bytes) let a core's own
// prefetchers run from block to block where the ids do.
struct KvLayerView {
  std::byte* base;
  size_t block_stride;  // bytes between consecutive block ids
  size_t head_stride;   // bytes between consecutive heads
  std::byte* Head(int32_t block, int32_t head) const {
    return base + static_cast<size_t>(block) * block_stride +
           static_cast<size_t>(head) * head_stride;
  }
};

enum class RopeMode : uint8_t {
  kNone,      // no rotation (rope_dims is ignored)
  kAdjacent,  // pairs (2i, 2i+1): llama's GGUF order ("norm")
  kHalf,      // pairs (i, i + rope_dims/2): "neox"
};

struct AttentionShape {
  int32_t heads;     // query heads, a multiple of kv_heads, at most 128 per kv head
  int32_t kv_heads;  // >= 1
  int32_t head_dim;  // 16..kMaxHeadDim, a multiple of 16
  float scale;       // of the scores before softmax, usually 1/sqrt(head_dim)
  RopeMode rope_mode;
  int32_t rope_dims;  // even, <= head_dim: the leading dims that rotate
  // > 0: a score s, scaled, becomes softcap * tanh(s / softcap) before softmax (Gemma 2, section
  // 2). 0: it stays.
  float softcap = 0;
};
// Null when the kernels can run the shape, else what is wrong with it (a sentence fragment, static
// storage).
const char* AttentionShapeFault(const AttentionShape& shape);

// Where a row of the step lives in the cache.
struct RowPlace {
  int32_t position;  // >= 0; slot in the block is position % kBlockTokens
  int32_t block;     // id of the block that holds it
};

// A run of consecutive new rows of one sequence, as an item sees it.
struct AttentionSegment {
  const int32_t* blocks;  // the sequence's block table from position 0; covers start + rows tokens
  int32_t start;          // position of its first row
  int32_t rows;           // >= 1
  int32_t first_row;      // its first row in q and out
  int32_t group;          // first of kv_heads consecutive groups if its context is split, else -1
  // > 0: its rows see later keys too; the number of the sequence's keys. 0: causal.
  int32_t both_ways = 0;
};

// Work that one worker does alone: some rows of one kv head against chunks [chunk_begin,
// chunk_end).
struct AttentionItem {
  int32_t kv_head;
  int32_t chunk_begin;
  int32_t chunk_end;
  int32_t segment_begin;  // index into AttentionWork::segments
  int32_t segment_count;  // > 1: the segments share every block of these chunks and see all their
                          // tokens
  float cost;             // relative time, for ordering; never for arithmetic
};

// A (sequence, kv head) whose chunks run as several items; the worker that finishes the last one
// merges.
struct AttentionGroup {
  int64_t partial_offset;  // floats: state of (chunk c, row r) is at offset + (c*rows*G + r) *
                           // (head_dim + 16)
  int32_t chunks;
  int32_t items;       // items that contribute
  int32_t unfinished;  // atomic; items - finished; back at items after the merge, ready for the
                       // next layer
  int32_t unused;
};

// The plan as kernels see it; AttentionPlan (attention_plan.h) builds and owns it. The same for all
// layers of a step, but the counters allow only one layer at a time.
struct AttentionWork {
  const AttentionItem* items;  // longest first
  const AttentionSegment* segments;
  AttentionGroup* groups;
};

// Floats of a saved softmax state of one row and head: o[head_dim], max, sum, padding to 64 bytes.
inline constexpr int kPartialExtra = 16;

// The keys before its own that a query sees.
struct AttentionWindow {
  // > 0: a query at position p sees the keys at p - tokens + 1 .. p alone, both ways also those
  // before p + tokens. 0: all before it, both ways all.
  int32_t tokens = 0;
  // Windows lie one behind another from position 0 on (chunked attention): a query sees the keys of
  // its own, at p - p % tokens .. p. Never both ways.
  bool aligned = false;
};
// First key that a query at `position` sees. Always inlined: sources that include this are compiled
// for different instruction sets, and a linker keeps one copy of an inline function for all.
[[gnu::always_inline]] inline int32_t FirstKey(int32_t position, AttentionWindow window) {
  if (window.tokens <= 0 || position < window.tokens) return 0;
  return window.aligned ? position - position % window.tokens : position - window.tokens + 1;
}

// One layer's matrices. Rows of q and out are those of the step's batch.
struct AttentionArgs {
  AttentionShape shape;
  KvLayout layout;
  KvLayerView kv;
  const float* q;     // [rows][heads * head_dim], as rope_append left them
  size_t q_stride;    // floats between rows of q
  float* out;         // [rows][heads * head_dim]
  size_t out_stride;  // floats between rows of out
  float* partials;  // AttentionPlan::partial_floats() floats, 64-byte aligned; may be null if that
                    // is 0
  AttentionWindow window = {};  // layers of one step may differ
  // [heads], or null: a score that takes part in each head's softmax as that of one more key, whose
  // value is zero (gpt-oss). It is not scaled. Finite.
  const float* sinks = nullptr;
};

struct RopeAppendArgs {
  AttentionShape shape;  // kv_heads may be 0: rows are queries alone, and nothing is appended
  KvLayout layout;
  KvLayerView kv;
  float* qkv;            // row: q [heads*head_dim] | k [kv_heads*head_dim] | v [kv_heads*head_dim]
  size_t stride;         // floats between rows
  const RowPlace* rows;  // one per row of qkv
  const float* cos_sin;  // RopeTable::data(): [position][cos[rope_dims/2] | sin[rope_dims/2]]; null
                         // for kNone
};

// One set per instruction set. Pointers are never null.
struct AttentionKernels {
  const char* name;   // "scalar", "avx2", "avx512vnni", "amx", "neon": which file wrote it
  KvFormat native16;  // the 16-bit cache format of this table

  // Rotates q and k of rows [row_begin, row_end) in place and writes k and v to their slots of the
  // cache. For KvFormat::kI8, q and k are then transformed as well (cpu/attention_hadamard.inc),
  // which leaves their products unchanged; rows and cache must go through the same table. Writes
  // nothing but those slots and rows: ranges may run on any workers at once.
  void (*rope_append)(const RopeAppendArgs& args, int32_t row_begin, int32_t row_end);

  // Bytes of 64-byte aligned scratch that run_item needs, per worker; its contents need not survive
  // calls.
  size_t (*scratch_bytes)(const AttentionShape& shape);

  // Runs item `index` of the work. Every item must be run exactly once per layer, by any worker, in
  // any order; when all have returned, out is complete.
  void (*run_item)(const AttentionArgs& args, const AttentionWork& work, int32_t index,
                   std::byte* scratch);
};

// Filled in cpu/<isa>/attention_*.cc. Call only on a machine that has the instructions.
const AttentionKernels& ScalarAttentionKernels();
const AttentionKernels& Avx2AttentionKernels();
const AttentionKernels& Avx512VnniAttentionKernels();
const AttentionKernels& AmxAttentionKernels();  // with the bits of the one before
const AttentionKernels& NeonAttentionKernels();

}  // namespace tutti::kernels
