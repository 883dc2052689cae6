#include "kernels/rows_top_k.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tutti::kernels {
namespace {

bool Better(const RowCandidate& a, const RowCandidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

}  // namespace

int32_t SelectTopK(const float* x, int32_t n, int32_t k, BlockMaximaFunction block_maxima,
                   CollectFunction collect, RowCandidate* out, void* scratch) {
  const int32_t blocks = (n + kTopKBlock - 1) / kTopKBlock;
  float* maxima = static_cast<float*>(scratch);
  float* order = maxima + blocks;
  // After two floats per block; RowCandidate needs no more than a float's alignment.
  RowCandidate* candidates = reinterpret_cast<RowCandidate*>(order + blocks);
  block_maxima(x, n, maxima);

  // k blocks have a maximum of at least `threshold`, so the k best entries are at least that:
  // nothing below it can win. With fewer blocks than k every finite entry is a candidate.
  float threshold = std::numeric_limits<float>::lowest();
  if (k < blocks) {
    std::copy(maxima, maxima + blocks, order);
    std::nth_element(order, order + (k - 1), order + blocks, std::greater<float>());
    threshold = std::max(threshold, order[k - 1]);
  }
  int32_t found = 0;
  for (int32_t b = 0; b < blocks; ++b) {
    if (!(maxima[b] >= threshold)) continue;
    found += collect(x, b * kTopKBlock, std::min(n, (b + 1) * kTopKBlock), threshold,
                     candidates + found);
  }
  const int32_t kept = std::min(k, found);
  if (kept < found) std::nth_element(candidates, candidates + kept, candidates + found, Better);
  std::sort(candidates, candidates + kept, Better);
  std::copy(candidates, candidates + kept, out);
  return kept;
}

}  // namespace tutti::kernels
