// EncoderStats: a snapshot of one encoder's counters, read from atomics by any thread. Each figure
// is exact; figures of one snapshot may be a batch apart.
#pragma once

#include <array>
#include <cstdint>

#include "api/types.h"
#include "base/clock.h"
#include "engine/policy/dispatch.h"

namespace tutti::engine {

struct EncoderStats {
  // gauges
  int requests = 0;       // accepted and not ended
  int preparing = 0;      // of these, not submitted yet
  int64_t inputs = 0;     // of all of these
  int waiting_items = 0;  // submitted, in no batch yet
  int64_t waiting_tokens = 0;
  int64_t queued_bytes = 0, result_bytes = 0;
  Duration oldest_waiting{0};  // since the oldest of the waiting items was submitted
  Duration predicted_wait{0};  // for a request that arrives now
  api::LoadLevel level = api::LoadLevel::kGreen;
  // counters
  uint64_t batches = 0, items = 0, tokens = 0;  // launched; items run again alone count again
  uint64_t padded_tokens = 0;  // of the same batches, were each item padded to the longest
  std::array<uint64_t, kDispatchReasons> reasons{};  // batches by DispatchReason, without retries
  uint64_t failed_batches = 0, retried_items = 0, failed_items = 0;
  uint64_t passed_over = 0;            // times an item was left for the length of others
  int longest_passed = 0;              // most times of one item
  uint64_t wasted_tokens = 0;          // computed for requests that were then cancelled or failed
  uint64_t refused = 0, finished = 0;  // requests
  Duration busy{0};                    // batches launched to collected, summed
};

}  // namespace tutti::engine
