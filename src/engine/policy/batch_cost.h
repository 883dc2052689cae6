// BatchCost: predicts the time of an encoder's batch on this machine, fitted to measured batches:
//   time = fixed + per_token * tokens + per_square * sum(length^2)
// (the head of every batch, the matrix products, attention). Plain values; engine thread.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace tutti::engine {

struct BatchShape {
  int items = 0;
  int64_t tokens = 0;
  int64_t squares = 0;  // sum of length^2
  void Add(int length) {
    ++items;
    tokens += length;
    squares += int64_t{length} * length;
  }
};

class BatchCost {
 public:
  // Refits to the least squares of relative errors, older batches counting less (by half after 32).
  void Observe(const BatchShape& batch, Duration took);
  bool known() const { return known_; }              // false before the first observation
  Duration Estimate(const BatchShape& batch) const;  // zero while unknown
  Duration fixed() const { return Duration(static_cast<int64_t>(terms_[0])); }

 private:
  static constexpr int kTerms = 3;
  using Vector = std::array<double, kTerms>;
  static Vector Features(const BatchShape& batch);
  void Fit();

  // Normal equations, decayed; features are scaled to be of about equal size.
  std::array<Vector, kTerms> products_{};
  Vector targets_{};
  Vector terms_{};  // ns per feature, none negative
  double weight_ = 0;
  bool known_ = false;
};

}  // namespace tutti::engine
