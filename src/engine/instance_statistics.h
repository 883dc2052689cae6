// InstanceStatistics: counters of a decoder's work.
//
// Owned by a DecoderInstance. Only the engine thread changes the counters; Publish() copies them,
// with the state of scheduler and pool, to where any thread reads them without a lock.
#pragma once

#include <memory>

#include "api/types.h"
#include "base/clock.h"
#include "engine/admission_state.h"
#include "engine/scheduler.h"
#include "engine/stats.h"
#include "kv/block_pool.h"

namespace tutti::engine {

class InstanceStatistics {
 public:
  InstanceStatistics(std::shared_ptr<AdmissionState> admission, int kv_blocks);

  // --- engine thread ---
  EngineStats& count() { return count_; }  // its counters
  void ServiceTook(Duration took);         // time since a request's first run; updates admission_
  // After each step. `live_choices`: of all requests, whether they wait, run or pause.
  void Publish(const Scheduler& scheduler, const kv::KvBlockPool& pool, int live_choices,
               const TransferStats& transfer, int pinned_blocks);

  // --- any thread ---
  EngineStats Snapshot(TimePoint now) const;
  api::LoadSnapshot Load() const;

 private:
  const std::shared_ptr<AdmissionState> admission_;
  const int kv_blocks_;
  EngineStats count_;      // engine thread
  double service_ns_ = 0;  // moving average; engine thread

  struct Figures {
    EngineStats stats;
    TimePoint oldest_waiting = TimePoint::max();
  };
  Published<Figures> published_;
};

}  // namespace tutti::engine
