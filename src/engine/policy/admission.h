// Admission: how long a new request is likely to wait, when a refused one may come again, and
// whether a waiting sequence may start. Pure.
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

// Decides by block counts whether a waiting sequence may start.
struct AdmissionView {
  int available = 0;     // blocks that are free or cached, and not promised
  int new_blocks = 0;    // to hold the tokens it has now, beyond those it shares or holds
  int worst_blocks = 0;  // to hold all it may come to, beyond those
  int revived = 0;       // shared blocks without another holder: they stop being available too
  int outstanding = 0;   // blocks that running sequences still need for the tokens they have
  int growing = 0;  // running sequences without a promise: each needs another block now and then
  bool reserve_worst = false;  // no_evict, or a pinned sequence
};

// Blocks that a new sequence may use. One spare block for every four growing sequences (each takes
// a new one every 32 steps) avoids admitting a sequence only to preempt another soon after.
inline int SlackFor(const AdmissionView& v) {
  return v.available - v.outstanding - (v.reserve_worst ? 0 : (v.growing + 3) / 4);
}

// Blocks that a new sequence takes; it may start if this is at most SlackFor().
inline int BlocksToAdmit(const AdmissionView& v) {
  return v.revived + (v.reserve_worst ? v.worst_blocks : v.new_blocks);
}

}  // namespace tutti::engine
