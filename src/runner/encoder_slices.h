// How a batch of texts is cut for workers that each compute whole texts by themselves. Pure; any
// thread.
//
// A worker alone with some texts waits for nobody between the phases of a pass, and the rows it
// works on stay in its own cache: worth more than the last percent of balance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::runner {

// Rows a slice is made to have at most, unless one text alone has more: the states of so many rows,
// the wide ones between the two products of a feed-forward block among them, fit into a core's
// second-level cache beside the weights that stream through.
inline constexpr int kSliceRows = 128;

struct EncoderSlice {
  int first = 0, count = 0;  // items
};

// Contiguous slices of the items, whose rows begin at `offsets` ([items + 1]); into `slices`, whose
// memory is reused. Empty where the workers would not share the rows evenly enough: then all of
// them work on all rows together.
void CutSlices(std::span<const int32_t> offsets, int workers, std::vector<EncoderSlice>& slices);

}  // namespace tutti::runner
