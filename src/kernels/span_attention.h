// Attention without a cache and without a causal mask, as encoders need it: every row of a sequence
// sees every row of the same sequence, and nothing else.
//
// What: the rows of a batch lie one sequence after another in one matrix that holds q, k and v of
// all heads; an item is (sequence, heads, query rows), and PlanSpanAttention cuts a batch into
// them. Plain data and one table of function pointers per instruction set, POD only (attention.h
// says why). Owner: the caller owns all memory; kernels own nothing, never allocate and never fail.
// Thread: SPMD. Any worker may run any item, all at once, each with its own scratch; q, k and v of
// all rows must be complete before. Units: rows count tokens, strides and columns are in floats.
// Errors: none; the shape is checked where the model is loaded (SpanAttentionShapeFault).
//
// Bits: one arithmetic per table. A row's output depends on its sequence only: never on the batch,
// on its place in it, on the cut into items or on workers. Per row and head, in float32: scores sum
// (q * (scale * log2 e)) * k over ascending dims, with FMA except in the scalar table; with terms
// of distances they sum k * relative query + q * (k + relative key), times scale * log2 e at the
// end. Then the bias times log2 e is added; keys are taken in chunks of kSpanChunkKeys from the
// sequence's first; each chunk raises the running maximum, rescales what was summed and adds
// 2^(score - maximum) and its product with v over ascending keys; the sum of the weights divides at
// the end. Keys beyond the reach weigh 0, so it does not matter which of them a tile of queries
// skips. NaN: a row that holds one makes its own sequence NaN where the definition does, and no
// other; a score of -inf weighs 0, and a row whose scores are all -inf gives NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::kernels {

// Keys whose scores are kept at once. Part of the arithmetic: changing it changes bits.
inline constexpr int kSpanChunkKeys = 128;
// Query rows that one pass over the keys computes; tiles at multiples of it waste nothing.
inline constexpr int kSpanTileRows = 32;

struct SpanAttentionShape {
  int32_t heads;     // of q, k and v alike
  int32_t head_dim;  // 16..256, a multiple of 16
  float scale;       // of the scores before softmax, usually 1/sqrt(head_dim)
};
// Null when the kernels can run the shape, else what is wrong with it (a sentence fragment, static
// storage).
const char* SpanAttentionShapeFault(const SpanAttentionShape& shape);

// Keys and queries that stand for the distance of two tokens (DeBERTa). The product of query i and
// key j of a sequence, before it is scaled, becomes
//   q * (k + keys[d]) + k * queries[d],   d = i - j, at least -farthest and at most farthest.
// Dim n of head h at distance d is at [(h * head_dim + n) * stride + d]. The pointers stand at
// distance 0 of tables of all distances from -(farthest + kSpanTileRows) to that, which have one
// value from farthest on and one from -farthest down. Source: He et al. 2021, "DeBERTa".
struct SpanRelative {
  const float* keys = nullptr;  // null: none, and no queries
  const float* queries = nullptr;
  size_t stride = 0;
  int32_t farthest = 0;
};

struct SpanAttentionArgs {
  SpanAttentionShape shape;
  // Row r: q of head h is at qkv + r * stride + q_column + h * head_dim; k and v are at k_column
  // and v_column in the same way.
  const float* qkv;
  size_t stride;
  size_t q_column;
  size_t k_column;
  size_t v_column;
  float* out;  // [rows][heads * head_dim]; must not overlap qkv
  size_t out_stride;
  // What is added to the scaled score of query i and key j of a sequence for head h:
  // bias[h * bias_stride + i - j]; null: nothing. -inf: the key has no weight. It points into a
  // table of all distances from -d to d, where d is kSpanTileRows more than the reach, or than the
  // longest sequence if there is no reach.
  const float* bias = nullptr;
  size_t bias_stride = 0;  // 0: the same for all heads
  // > 0: keys farther away than this are not looked at; the bias of such distances is -inf.
  int32_t reach = 0;
  SpanRelative relative = {};
};

// Work that one worker does alone. Items write disjoint parts of out.
struct SpanAttentionItem {
  int32_t first_row;    // of the sequence, in qkv and out
  int32_t rows;         // of the sequence, >= 1: the keys
  int32_t query_begin;  // rows [query_begin, query_end) of the sequence are computed
  int32_t query_end;
  int32_t head_begin;  // for heads [head_begin, head_end)
  int32_t head_end;
};

// Bytes of 64-byte aligned scratch that run_item needs, per worker: at most 48 KiB for any
// sequences. Its contents need not survive calls.
size_t SpanAttentionScratchBytes(const SpanAttentionShape& shape);

// One set per instruction set. Pointers are never null.
struct SpanAttentionKernels {
  const char* name;  // which file wrote it

  // Every item must be run exactly once, in any order; when all have returned, out is complete.
  void (*run_item)(const SpanAttentionArgs& args, const SpanAttentionItem& item,
                   std::byte* scratch);
};

// Filled in cpu/<isa>/span_attention_<isa>.cc. Call only on a machine that has the instructions.
const SpanAttentionKernels& ScalarSpanAttentionKernels();
const SpanAttentionKernels& Avx2SpanAttentionKernels();
const SpanAttentionKernels& Avx512VnniSpanAttentionKernels();
const SpanAttentionKernels& NeonSpanAttentionKernels();

// Cuts a batch of sequences into items. Pure; any thread. The cut decides which worker computes an
// item and when, and never changes a bit.
//
// The items of a batch whose sequence i is rows [offsets[i], offsets[i + 1]), the costliest first,
// so that workers who take them by index end at about the same time; into `items`, whose memory is
// used again. Empty sequences have none. A sequence stays whole while there are enough others; then
// its heads are shared out, then its query rows, but never below a few microseconds of work.
// offsets: ascending, at least one.
void PlanSpanAttention(const SpanAttentionShape& shape, std::span<const int32_t> offsets,
                       int workers, std::vector<SpanAttentionItem>& items);

}  // namespace tutti::kernels
