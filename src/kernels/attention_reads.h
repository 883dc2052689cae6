// Which keys and values a worker will read in the attention that comes next, for ReadAhead.
//
// Pure function; any thread. Units: bytes, lines of 64, tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/read_ahead.h"

namespace tutti::kernels {

// What worker `worker` of `workers` is likely to read in every layer's attention, as offsets from
// the layer's base: items are taken in order by whoever is free, so about every workers-th of the
// `items` falls to it. Fills `runs` from the front as far as it and `max_lines` reach; returns how
// many it filled. Of `layer` only the strides are looked at.
int32_t ListAttentionReads(const AttentionWork& work, int32_t items, const KvLayout& layout,
                           const KvLayerView& layer, int worker, int workers, int32_t max_lines,
                           std::span<ReadAhead::Run> runs);

}  // namespace tutti::kernels
