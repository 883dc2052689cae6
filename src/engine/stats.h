// Statistics of the engines: snapshots of their counters, and how the engine thread publishes
// figures that any thread reads without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "api/types.h"
#include "base/clock.h"
#include "engine/policy/dispatch.h"

namespace tutti::engine {

// A snapshot of one decoder's counters. Each figure is exact; figures of one snapshot may be a step
// apart.
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
  int kv_blocks_pinned = 0;  // of the active ones, by each pin that has them
  // Blocks of layers with a window, where these have some of their own; else all 0.
  int window_blocks_total = 0, window_blocks_free = 0, window_blocks_active = 0,
      window_blocks_cached = 0;
  // Slots of recurrent states; all 0 for a model without them.
  int state_slots_total = 0, state_slots_free = 0, state_slots_active = 0, state_slots_cached = 0;
  int64_t kv_waste_tokens =
      0;  // slots of active blocks that hold no token: <= one block per sequence
  // counters
  uint64_t steps = 0;
  uint64_t prompt_tokens_computed = 0, output_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_queried_tokens = 0, prefix_hit_tokens = 0;
  uint64_t kv_evicted_blocks = 0;
  uint64_t evicted_window_blocks = 0;  // cached blocks of layers with a window that others took
  // Prefixes kept by a PrefixStore: loads begun, of these those that did not find all they began
  // for, tokens that they entered into the index; blocks saved, and blocks that were not.
  uint64_t prefix_loads = 0, failed_prefix_loads = 0, loaded_prefix_tokens = 0;
  uint64_t saved_prefix_blocks = 0, dropped_prefix_blocks = 0;
  uint64_t evicted_checkpoints = 0;  // checkpoints of recurrent states whose slots others took
  uint64_t wasted_tokens =
      0;  // computed for requests that were then cancelled, failed or preempted
  uint64_t reader_pauses = 0, reader_cancels = 0;
  uint64_t refused = 0, finished = 0;  // requests
  // Steps with draft tokens, tokens proposed, and those of them that were then drawn.
  uint64_t draft_steps = 0, draft_tokens = 0, accepted_tokens = 0;
  Duration busy{0};  // steps, planned to collected, summed
};

// A snapshot of one encoder's counters. Each figure is exact; figures of one snapshot may be a
// batch apart.
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

// A plain struct of figures that one thread stores and any thread loads, without a lock.
//
// Each figure is exact, since none lies in two words; figures of one Load() may be of two Store()s.
template <typename T>
class Published {
 public:
  Published() { Store(T()); }

  void Store(const T& figures) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &figures, sizeof(T));
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  T Load() const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    T figures;
    std::memcpy(static_cast<void*>(&figures), words.data(), sizeof(T));
    return figures;
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);

  std::array<std::atomic<uint64_t>, kWords> words_;
};

}  // namespace tutti::engine
