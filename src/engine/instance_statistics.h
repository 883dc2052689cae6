// InstanceStatistics: counters of a decoder's work.
//
// Owned by a DecoderInstance. Only the engine thread changes the counters; Publish() copies them,
// with the state of scheduler and pool, to atomics that any thread reads without a lock. Each
// figure is exact; figures of one snapshot may be a step apart.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "api/types.h"
#include "base/clock.h"
#include "engine/admission_state.h"
#include "engine/mailbox.h"
#include "engine/pulse.h"
#include "engine/scheduler.h"
#include "engine/stats.h"
#include "kv/block_pool.h"

namespace tutti::engine {

class InstanceStatistics {
 public:
  struct Counters {
    uint64_t steps = 0, prompt_tokens = 0, output_tokens = 0, prefix_queried = 0, prefix_hits = 0,
             wasted = 0;
    uint64_t draft_steps = 0, draft_tokens = 0, accepted_tokens = 0;
    uint64_t reader_pauses = 0, reader_cancels = 0, finished = 0;
    Duration busy{0};
  };

  InstanceStatistics(std::shared_ptr<const Mailbox> mailbox, std::shared_ptr<AdmissionState> ledger,
                     int kv_blocks);

  // --- engine thread ---
  Counters& count() { return count_; }
  void StepTook(Duration took);
  void ServiceTook(Duration took);  // of a request, from its first run on; the ledger is told
  Pulse& pulse() { return pulse_; }
  // After each step. `live_choices`: of all requests, whether they wait, run or pause.
  void Publish(const Scheduler& scheduler, const kv::KvBlockPool& pool, int live_choices,
               bool has_requests, TimePoint now);

  // --- any thread ---
  EngineStats Snapshot(TimePoint now) const;
  api::LoadSnapshot Load() const;
  Heartbeat heartbeat() const { return pulse_.Read(*mailbox_); }

 private:
  const std::shared_ptr<const Mailbox> mailbox_;
  const std::shared_ptr<AdmissionState> ledger_;
  const int kv_blocks_;
  Counters count_;         // engine thread
  double service_ns_ = 0;  // moving average; engine thread
  Pulse pulse_;

  // Published after each step; read by any thread.
  struct Published {
    std::atomic<int> running{0}, waiting{0}, deferred{0}, kv_free{0}, kv_cached{0};
    std::atomic<int64_t> kv_waste{0}, oldest_ns{0}, busy_ns{0};
    std::atomic<uint64_t> steps{0}, prompt_tokens{0}, output_tokens{0}, preemptions{0},
        prefix_queried{0}, prefix_hits{0}, evicted{0}, wasted{0}, reader_pauses{0},
        reader_cancels{0}, finished{0}, draft_steps{0}, draft_tokens{0}, accepted_tokens{0};
  } published_;
};

}  // namespace tutti::engine
