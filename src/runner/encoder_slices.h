// Splits a batch of texts into slices for workers that each compute whole texts by themselves.
// Pure; any thread.
//
// A worker with texts of its own waits for no other worker between the phases of a pass, and its
// rows stay in its own cache: this gains more than the last percent of balance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::runner {

// Maximum rows of a slice, unless one text alone has more: the states of 128 rows, including the
// wide ones between the two products of a feed-forward block, fit into a core's second-level cache
// along with the weights that stream through.
inline constexpr int kSliceRows = 128;

struct EncoderSlice {
  int first = 0, count = 0;  // items
};

// Contiguous slices of the items, whose rows begin at `offsets` ([items + 1]); into `slices`, whose
// memory is reused. Empty where the workers would not share the rows evenly enough: then all of
// them work on all rows together.
void CutSlices(std::span<const int32_t> offsets, int workers, std::vector<EncoderSlice>& slices);

}  // namespace tutti::runner
