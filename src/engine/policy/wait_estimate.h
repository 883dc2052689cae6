// Predicts a new request's queueing time, and the retry-after time of a refused one. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tutti::engine {

// Predicted wait when `sequences` unfinished sequences share `max_num_seqs` places in a step and
// each runs for `service` on average.
inline Duration PredictWait(int sequences, int max_num_seqs, Duration service) {
  const int ahead = std::max(0, sequences - max_num_seqs + 1);
  return max_num_seqs <= 0 ? Duration(0) : service * ahead / max_num_seqs;
}

// Retry-after time: whole seconds from 1 to 60, spread by up to a quarter so that refused clients
// do not all come back at once.
inline std::chrono::milliseconds RetryAfter(Duration wait, uint64_t salt) {
  const double seconds =
      std::max(0.0, ToSeconds(wait)) * (1.0 + static_cast<double>(salt % 256) / 1024.0);
  return std::chrono::seconds(std::clamp<int64_t>(static_cast<int64_t>(seconds + 0.999), 1, 60));
}

}  // namespace tutti::engine
