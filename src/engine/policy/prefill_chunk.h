// How many prompt tokens a step may compute: bounded in tokens, and in time so that decoding
// sequences keep their pace. StepCost learns what a step costs on this machine; PrefillChunk
// decides. Plain values; engine thread.
#pragma once

#include <array>

#include "base/clock.h"
#include "engine/options.h"

namespace tutti::engine {

// Moving averages of measured steps: time of a step of r decode rows, and of one more prompt token.
class StepCost {
 public:
  void Observe(int decode_rows, int prefill_tokens, Duration took);
  // Expected time of a step with only so many decode rows; zero while unknown.
  Duration Decode(int rows) const;
  Duration PerPrefillToken() const { return Duration(static_cast<int64_t>(prefill_token_ns_)); }

 private:
  static constexpr int kBuckets = 8;  // rows 1, 2, 3-4, 5-8, ... 65 and more
  static int BucketOf(int rows);
  std::array<double, kBuckets> decode_ns_{};
  double prefill_token_ns_ = 0;
};

struct ChunkInputs {
  int decode_rows = 0;      // in this step already
  int longest_chunk = 0;    // tokens, by the options and the runner's limits
  Duration decode_time{0};  // StepCost::Decode(decode_rows)
  Duration per_token{0};    // StepCost::PerPrefillToken()
  Duration itl_target{0};
  Duration step_limit{0};  // of any step with a chunk; zero = none
};

// Smallest chunk beside decoding sequences: a prompt always advances.
inline constexpr int kSmallestChunk = 8;
// First chunk beside decoding sequences while the cost of a token is not known yet.
inline constexpr int kFirstChunk = 32;

int PrefillChunk(const ChunkInputs& in);

// What the first of several prompts may take of a step's `budget` when the others could use
// `demand` tokens: never less than half, so that it finishes in at most twice its time; what the
// others cannot use is its too. A short prompt thus gets through beside a long one that came before
// it.
int FirstShare(int budget, int64_t demand);

}  // namespace tutti::engine
