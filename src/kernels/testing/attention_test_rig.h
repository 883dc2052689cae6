// Test support: a paged cache with random block tables, sequences with random projections, and
// steps over them.
//
// Keeps the float inputs, so that a float64 reference can be computed from first principles.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "kernels/kernels.h"

namespace tutti::kernels::testing {

struct FreeAligned {
  void operator()(void* p) const { std::free(p); }
};
template <typename T>
using AlignedArray = std::unique_ptr<T[], FreeAligned>;
template <typename T>
AlignedArray<T> MakeAligned(size_t count) {
  return AlignedArray<T>(
      static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64 + 64)));
}

// A table and a cache format to test it with.
struct Variant {
  Isa isa;
  KvFormat format;
  const AttentionKernels* kernels;
  std::string Name() const;
};
// The variants that this machine can run: every table with float, with its own 16-bit cache and
// with int8.
std::vector<Variant> Variants();

// One sequence's inputs for every token, and the outputs computed so far.
struct RigSequence {
  int32_t tokens = 0;      // of input available
  int32_t done = 0;        // of them computed
  std::vector<float> qkv;  // [tokens][(heads + 2 kv_heads) * head_dim], before rotation
  std::vector<float> out;  // [tokens][heads * head_dim]
  std::vector<int32_t> blocks;
  std::vector<double>
      rotated;  // float64 rows of qkv after rotation, as far as a reference needed them
};

struct StepRows {
  size_t sequence;
  int32_t rows;
};

class Rig {
 public:
  Rig(const Variant& variant, const AttentionShape& shape, int32_t blocks, uint64_t seed);

  // Random inputs, scaled so that softmax is neither flat nor a single peak. Its blocks are drawn
  // at random.
  size_t AddSequence(int32_t tokens);
  // A sequence whose first `shared` computed tokens (a multiple of 32) are those of `parent`, in
  // the same blocks.
  size_t AddFork(size_t parent, int32_t shared, int32_t tokens);
  // The same tokens in other blocks, nothing computed.
  size_t AddCopy(size_t original);

  // Appends and attends to the next rows of some sequences, on `workers` threads.
  void Step(const std::vector<StepRows>& rows, int workers = 1, bool share_prefixes = true);
  // Computes all of a sequence in steps of at most `chunk` rows.
  void Run(size_t sequence, int32_t chunk, int workers = 1);

  // Sets the sliding window of all later steps (AttentionArgs::window).
  void set_window(int32_t tokens, bool aligned = false) { window_ = {tokens, aligned}; }
  // Sets the sinks of all later steps, [heads], or none (AttentionArgs::sinks).
  void set_sinks(std::vector<float> sinks) { sinks_ = std::move(sinks); }
  // Whether later steps plan for the window alone, with block tables that have no block behind it.
  void set_plan_of_window(bool on) { plan_of_window_ = on; }

  // All later steps take whole sequences, whose rows see each other both ways.
  void set_both_ways() { both_ways_ = true; }

  RigSequence& operator[](size_t i) { return sequences_[i]; }
  const AttentionShape& shape() const { return shape_; }
  const AttentionPlan& plan() const { return plan_; }
  // Makes the keys and values of one token `value`. Its query stays.
  void Spoil(size_t sequence, int32_t position, float value);
  // Fills every slot of every block with what an unlucky earlier user could have left.
  void PoisonFreeBlocks();

  // Float64 attention over the float inputs, with the scale, rotation and soft cap of the shape,
  // the window and the sinks; [heads * head_dim].
  std::vector<double> Reference(RigSequence& sequence, int32_t position) const;

 private:
  int32_t TakeBlock();
  int32_t FirstSeen(int32_t position) const;
  const double* Rotated(RigSequence& sequence, int32_t position) const;

  Variant variant_;
  AttentionShape shape_;
  KvLayout layout_;
  AttentionWindow window_;
  std::vector<float> sinks_;
  bool plan_of_window_ = false;
  bool both_ways_ = false;
  Random random_;
  AlignedArray<std::byte> pool_;
  size_t block_stride_;
  std::vector<int32_t> free_;
  std::vector<float> cos_sin_;
  std::vector<RigSequence> sequences_;
  AttentionPlan plan_;
};

// sqrt(sum of squared differences / sum of squares of the reference)
double RelativeError(const std::vector<double>& reference, const float* values);

}  // namespace tutti::kernels::testing
