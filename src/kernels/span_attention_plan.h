// Cuts a batch of sequences into items of attention (span_attention.h).
//
// Pure; any thread. The cut decides which worker computes an item and when, and never changes a
// bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/span_attention.h"

namespace tutti::kernels {

// The items of a batch whose sequence i is rows [offsets[i], offsets[i + 1]), the costliest first,
// so that workers who take them by index end at about the same time; into `items`, whose memory is
// used again. Empty sequences have none. A sequence stays whole while there are enough others; then
// its heads are shared out, then its query rows, but never below a few microseconds of work.
// offsets: ascending, at least one.
void PlanSpanAttention(const SpanAttentionShape& shape, std::span<const int32_t> offsets,
                       int workers, std::vector<SpanAttentionItem>& items);

}  // namespace tutti::kernels
