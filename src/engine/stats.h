// EngineStats: a snapshot of one decoder's counters, read from atomics by any thread. Each figure
// is exact; figures of one snapshot may be a step apart.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti::engine {

struct EngineStats {
  // gauges
  int max_num_seqs = 0, running = 0;  // sequences: how many may run, how many do
  int waiting_capacity = 0;           // sequences that wait to run or for KV blocks
  int waiting_deferred = 0;  // sequences that wait for a reader, a grant or a sibling's prompt
  int preparing = 0;         // accepted, not yet submitted (n counts n)
  int64_t queued_prompt_tokens = 0;  // prompt tokens of requests that never ran
  int64_t queued_bytes = 0;
  Duration oldest_waiting{0};  // since the oldest sequence that waits to run was accepted
  Duration predicted_wait{0};  // for a request that arrives now
  int kv_blocks_total = 0, kv_blocks_free = 0, kv_blocks_active = 0, kv_blocks_cached = 0;
  int64_t kv_waste_tokens =
      0;  // slots of active blocks that hold no token: <= one block per sequence
  // counters
  uint64_t steps = 0;
  uint64_t prompt_tokens_computed = 0, output_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_queried_tokens = 0, prefix_hit_tokens = 0;
  uint64_t kv_evicted_blocks = 0;
  uint64_t wasted_tokens =
      0;  // computed for requests that were then cancelled, failed or preempted
  uint64_t reader_pauses = 0, reader_cancels = 0;
  uint64_t refused = 0, finished = 0;  // requests
  // Steps with draft tokens, tokens proposed, and those of them that were then drawn.
  uint64_t draft_steps = 0, draft_tokens = 0, accepted_tokens = 0;
  Duration busy{0};  // steps, planned to collected, summed
};

}  // namespace tutti::engine
