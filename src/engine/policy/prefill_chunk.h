// Prefill chunks: limits the prompt tokens of a step in number, and in time so that decoding
// sequences keep their pace. StepCost measures the cost of steps on this machine; PrefillChunk
// decides. Plain values; engine thread.
#pragma once

#include <array>
#include <span>

#include "base/clock.h"
#include "engine/options.h"

namespace tutti::engine {

// Moving averages of measured steps: time of a step of r decode rows, and of one more prompt token.
class StepCost {
 public:
  void Observe(int decode_rows, int prefill_tokens, Duration took);
  // Expected time of a step with `rows` decode rows and nothing else; zero while unknown.
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

// Smallest chunk in a step in which sequences decode: a prompt always advances.
inline constexpr int kSmallestChunk = 8;
// Chunk in a step in which sequences decode, until the cost of a prompt token was measured.
inline constexpr int kFirstChunk = 32;

int PrefillChunk(const ChunkInputs& in);

// Divides the `budget` tokens of a step's chunk among prompts. `wanted`: tokens that each prompt
// still needs, the oldest first; replaced by their shares. The oldest prompt gets at least half, so
// that it takes at most twice as long as alone; the others share the rest, the shortest first, so
// that a short prompt does not wait for long ones that came before it. `waiting`: tokens of the
// shortest prompt that waits for admission, 0 if none does; it counts as one of the others, and its
// share is left over.
void ShareChunk(int budget, std::span<int> wanted, int waiting);

}  // namespace tutti::engine
