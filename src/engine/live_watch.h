// LiveWatch: hands snapshots of one engine to operators (docs/live.md). StepRing: the last steps.
//
//   any thread                         engine thread, between two steps
//   Ask()  --- wanted, signal --->     wanted()? Take(): fills the one buffer, which was allocated
//   Read() <--- copy, under mutex ---  by Ask()
//
// The engine thread never waits: while another thread copies the buffer, it takes its snapshot
// before a later step. While nobody asks, it pays one relaxed load for each step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/live_state.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "engine/mailbox.h"

namespace tutti::engine {

// The last LiveEngine::kSteps steps. Engine thread only.
class StepRing {
 public:
  void Add(const api::LiveStep& step) { steps_[count_++ % steps_.size()] = step; }
  // Copies the steps, and sets the rates that follow from them.
  void CopyTo(api::LiveEngine* out, TimePoint now) const;

 private:
  std::array<api::LiveStep, api::LiveEngine::kSteps> steps_ = {};
  uint64_t count_ = 0;
};

class LiveWatch {
 public:
  explicit LiveWatch(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}

  // --- any thread ---
  // Asks for a snapshot, and wakes the engine thread.
  void Ask();
  bool pending() const { return wanted_.load(std::memory_order_acquire); }  // not taken yet
  // When the last snapshot was taken; min() if there is none.
  TimePoint taken() const { return TimePoint(Duration(taken_ns_.load(std::memory_order_acquire))); }
  // Copies the last snapshot; false if there is none.
  bool Read(api::LiveEngine* out) const;

  // --- engine thread ---
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // Calls fill(LiveEngine&), whose lists are empty and have their memory. Does nothing while
  // another thread reads.
  template <typename Fill>
  void Take(TimePoint now, const Fill& fill) {
    if (!mutex_.TryLock()) return;
    Clear(now);
    fill(buffer_);
    mutex_.Unlock();
    wanted_.store(false, std::memory_order_release);
    taken_ns_.store(now.time_since_epoch().count(), std::memory_order_release);
  }

 private:
  void Clear(TimePoint now) REQUIRES(mutex_);

  const std::shared_ptr<Signal> signal_;
  std::atomic<bool> wanted_{false};
  std::atomic<int64_t> taken_ns_{INT64_MIN};
  mutable Mutex mutex_;
  api::LiveEngine buffer_ GUARDED_BY(mutex_);
};

// The characters of LiveEngine::kv_map for blocks in these states: one for each block, or for
// several that lie together, so that there are at most LiveEngine::kMaxCells. Sets kv_cell_blocks.
// Pure.
void DrawBlocks(const std::vector<char>& states, api::LiveEngine* out);

}  // namespace tutti::engine
