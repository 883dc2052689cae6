#include "runner/encoder_slices.h"

#include <algorithm>

namespace tutti::runner {
namespace {

constexpr int kMaxWorkers = 64;  // beyond, the pass is shared anyway

// Rows of the most loaded worker if each idle worker takes the next slice and the time of a slice
// is proportional to its rows.
int LongestShare(std::span<const int32_t> offsets, const std::vector<EncoderSlice>& slices,
                 int workers) {
  int64_t load[kMaxWorkers] = {};
  for (const EncoderSlice& slice : slices) {
    int64_t& next = *std::min_element(load, load + workers);
    next += offsets[static_cast<size_t>(slice.first + slice.count)] -
            offsets[static_cast<size_t>(slice.first)];
  }
  return static_cast<int>(*std::max_element(load, load + workers));
}

}  // namespace

void CutSlices(std::span<const int32_t> offsets, int workers, std::vector<EncoderSlice>& slices) {
  slices.clear();
  const int items = static_cast<int>(offsets.size()) - 1;
  if (workers > kMaxWorkers || items < workers) return;
  const int rows = offsets.back() - offsets.front();
  const int rounds = std::max(1, (rows + workers * kSliceRows - 1) / (workers * kSliceRows));
  const int target = (rows + rounds * workers - 1) / (rounds * workers);
  EncoderSlice slice;
  for (int item = 0; item < items; ++item) {
    const int begin = offsets[static_cast<size_t>(slice.first)];
    const int end = offsets[static_cast<size_t>(item) + 1];
    const int size = end - offsets[static_cast<size_t>(item)];
    // Closed where it is nearer to the target without this item than with it.
    if (slice.count > 0 && end - begin - target > size - (end - begin - target)) {
      slices.push_back(slice);
      slice = {item, 0};
    }
    ++slice.count;
  }
  slices.push_back(slice);
  // A single worker has nothing to balance and gains from the cache.
  if (LongestShare(offsets, slices, workers) * 8 > (rows + workers - 1) / workers * 9)
    slices.clear();
}

}  // namespace tutti::runner
