// Selects the waiting items of an encoder's next batch, by a prediction of the batch's time. Plain
// values; engine thread; PickBatch is pure.
//
// Items wait in two lines. Singles are items of small interactive requests; they go ahead of bulk
// items, which are guaranteed a share of every batch. Within a line, items of a length similar to
// that of the first in line are picked, so that a batch is filled well and its time is predicted
// well; but each item may be passed over only a limited number of times.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

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

// Predicts the time of an encoder's batch on this machine, fitted to measured batches:
//   time = fixed + per_token * tokens + per_square * sum(length^2)
// (the head of every batch, the matrix products, attention).
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

struct Candidate {
  int tokens = 0;
  int passed = 0;       // batches that took a later item of its line but not this one
  bool picked = false;  // out
};

struct BatchLimits {
  int items = 0;
  int tokens = 0;
  Duration time = Duration::max();  // by the cost model; one item always goes
};

struct PickInputs {
  BatchLimits limits;
  int max_passed = 3;     // an item passed over this often is not passed over again
  double bulk_claim = 0;  // guaranteed part of this batch for bulk items, saved up: 0..1
  const BatchCost* cost = nullptr;
};

struct PickedBatch {
  BatchShape shape;
  double bulk_part = 0;  // of a whole batch, that bulk items took
  bool full = false;     // an item was left because it did not fit
  bool aged = false;     // full, and an item went because it had been passed over max_passed times
};

// Part of a full batch that one item takes: of items, tokens or time, whichever is greatest.
double BatchPart(int tokens, const BatchLimits& limits, const BatchCost& cost);

// Sets `picked` in both lines, and increments `passed` of items that a later item of their line
// overtook. Each line is given in the order of service and has at most the window's length. The
// batch is never empty if an item waits. `scratch` is memory for the call.
PickedBatch PickBatch(const PickInputs& in, std::span<Candidate> singles, std::span<Candidate> bulk,
                      std::vector<int>& scratch);

}  // namespace tutti::engine
