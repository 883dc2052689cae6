// The cos/sin table of rotary position embedding, precomputed in double for every position of the
// context.
//
// Immutable after construction; any thread reads. 2 MB for 8,192 positions of 64 dims.
// Source: Su et al., "RoFormer"; scaling by per-frequency factors as GGUF's rope_freqs tensor
// carries it (Llama 3: the factors divide the frequency), linear scaling divides the position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::kernels {

struct RopeParams {
  int32_t dims;                         // even: how many leading dims of a head rotate
  double freq_base = 10000.0;           // theta
  double linear_factor = 1.0;           // > 0: positions are divided by it
  std::span<const float> freq_factors;  // empty, or dims/2 divisors, each > 0
  double magnitude = 1.0;               // cosines and sines are multiplied by it
};

// Llama 3's frequency factors from its four hyperparameters, for files that carry those and no
// tensor.
std::vector<float> Llama3FreqFactors(int32_t dims, double freq_base, double factor,
                                     double low_freq_factor, double high_freq_factor,
                                     double original_context);

// YaRN's frequency factors: slow frequencies are divided by `factor`, fast ones stay, and between
// those that turn beta_slow and beta_fast times within the original context there is a ramp.
// Source: Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 3.2.
struct YarnParams {
  double factor = 1.0;            // >= 1
  double original_context = 1.0;  // positions
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // the ramp begins and ends at whole pairs
};
std::vector<float> YarnFreqFactors(int32_t dims, double freq_base, const YarnParams& yarn);

class RopeTable {
 public:
  RopeTable() = default;
  // positions >= 1: the table answers positions 0..positions-1.
  RopeTable(const RopeParams& params, int32_t positions);

  // [position][cos[dims/2] | sin[dims/2]]; what RopeAppendArgs::cos_sin takes.
  const float* data() const { return values_.data(); }
  int32_t positions() const { return positions_; }
  int32_t dims() const { return dims_; }

 private:
  int32_t dims_ = 0;
  int32_t positions_ = 0;
  std::vector<float> values_;
};

}  // namespace tutti::kernels
