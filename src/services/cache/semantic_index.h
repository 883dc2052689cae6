// SemanticIndex: nearest-neighbour search over the question vectors of one partition.
//
// A linear scan of sketches, then of vectors. A sketch has the sign bit of each component; the
// sketches of two vectors at an angle of acos(similarity) differ in about angle/pi of their bits
// (Goemans and Williamson 1995, for random hyperplanes; measurements show that the components of an
// embedding serve as well). Vectors whose sketches differ in more bits than the threshold allows,
// with a wide margin, are skipped. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::cache {

class SemanticIndex {
 public:
  // `width`: floats of a vector, at least 1.
  explicit SemanticIndex(size_t width);

  size_t size() const { return tags_.size(); }
  size_t width() const { return width_; }
  // Bytes of one entry.
  size_t entry_bytes() const { return width_ * sizeof(float) + words_ * 8 + sizeof(uint64_t); }
  // `vector` must have length 1. Near() returns `tag`, which must be unique.
  void Add(std::span<const float> vector, uint64_t tag);
  void Remove(uint64_t tag);  // if it is there

  struct Neighbour {
    uint64_t tag = 0;
    double similarity = 0;
  };
  // At most `most` entries with at least that cosine similarity, nearest first.
  std::vector<Neighbour> Near(std::span<const float> vector, double threshold, size_t most) const;

 private:
  std::vector<uint64_t> SketchOf(std::span<const float> vector) const;
  const size_t width_, words_;
  std::vector<float> vectors_;      // one after the other
  std::vector<uint64_t> sketches_;  // words_ each
  std::vector<uint64_t> tags_;
};

}  // namespace tutti::cache
