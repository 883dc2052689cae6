// Predicts which keys and values a worker will read in the next attention, for Prefetch.
//
// Pure function; any thread. Units: bytes, lines of 64, tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/prefetch.h"

namespace tutti::kernels {

// Lists what worker `worker` of `workers` is likely to read in every layer's attention, as offsets
// from the layer's base. Idle workers take items in order, so each gets about every workers-th of
// the `items`. Fills `runs` from the front until it is full or has `max_lines` cache lines; returns
// the number of runs filled. Only the strides of `layer` are used.
int32_t ListAttentionReads(const AttentionWork& work, int32_t items, const KvLayout& layout,
                           const KvLayerView& layer, int worker, int workers, int32_t max_lines,
                           std::span<Prefetch::Run> runs);

}  // namespace tutti::kernels
