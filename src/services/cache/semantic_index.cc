#include "services/cache/semantic_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tutti::cache {
namespace {

// The maximum number of differing bits at `threshold`: the expected number plus six standard
// deviations.
size_t MostDifferent(size_t width, double threshold) {
  const double share = std::acos(std::clamp(threshold, -1.0, 1.0)) / std::numbers::pi;
  const auto bits = static_cast<double>(width);
  return static_cast<size_t>(bits * share + 6 * std::sqrt(bits * share * (1 - share)) + 4);
}

// Four sums, so that the compiler may keep them side by side.
double Dot(const float* a, const float* b, size_t count) {
  float sums[16] = {};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (size_t k = 0; k < 16; ++k) sums[k] += a[i + k] * b[i + k];
  }
  double sum = 0;
  for (const float part : sums) sum += part;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

SemanticIndex::SemanticIndex(size_t width) : width_(width), words_((width + 63) / 64) {
  CHECK(width > 0);
}

std::vector<uint64_t> SemanticIndex::SketchOf(std::span<const float> vector) const {
  std::vector<uint64_t> sketch(words_);
  for (size_t i = 0; i < width_; ++i) {
    if (vector[i] > 0) sketch[i / 64] |= uint64_t{1} << (i % 64);
  }
  return sketch;
}

void SemanticIndex::Add(std::span<const float> vector, uint64_t tag) {
  CHECK_EQ(vector.size(), width_);
  const std::vector<uint64_t> sketch = SketchOf(vector);
  vectors_.insert(vectors_.end(), vector.begin(), vector.end());
  sketches_.insert(sketches_.end(), sketch.begin(), sketch.end());
  tags_.push_back(tag);
}

void SemanticIndex::Remove(uint64_t tag) {
  const auto found = std::find(tags_.begin(), tags_.end(), tag);
  if (found == tags_.end()) return;
  const auto at = static_cast<size_t>(found - tags_.begin()), last = tags_.size() - 1;
  std::copy_n(vectors_.begin() + static_cast<std::ptrdiff_t>(last * width_), width_,
              vectors_.begin() + static_cast<std::ptrdiff_t>(at * width_));
  std::copy_n(sketches_.begin() + static_cast<std::ptrdiff_t>(last * words_), words_,
              sketches_.begin() + static_cast<std::ptrdiff_t>(at * words_));
  tags_[at] = tags_[last];
  vectors_.resize(last * width_);
  sketches_.resize(last * words_);
  tags_.pop_back();
}

std::vector<SemanticIndex::Neighbour> SemanticIndex::Near(std::span<const float> vector,
                                                          double threshold, size_t most) const {
  std::vector<Neighbour> near;
  if (vector.size() != width_ || tags_.empty()) return near;
  const std::vector<uint64_t> sketch = SketchOf(vector);
  const auto bound = static_cast<int>(MostDifferent(width_, threshold));
  for (size_t i = 0; i < tags_.size(); ++i) {
    const uint64_t* const other = &sketches_[i * words_];
    int different = 0;
    for (size_t word = 0; word < words_ && different <= bound; ++word)
      different += std::popcount(sketch[word] ^ other[word]);
    if (different > bound) continue;
    const double similarity = Dot(vector.data(), &vectors_[i * width_], width_);
    if (similarity >= threshold) near.push_back({tags_[i], similarity});
  }
  const auto nearer = [](const Neighbour& a, const Neighbour& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.tag > b.tag;
  };
  const size_t kept = std::min(most, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(kept), near.end(),
                    nearer);
  near.resize(kept);
  return near;
}

}  // namespace tutti::cache
