// Device: what the models of one process share, so that they neither oversubscribe the cores nor
// run at the same time: the compute threads and the engine's loop over slots.
//
// Shared by the models that live on it; the composition root makes it. Thread: one at a time, but
// for what loop() itself allows.
#pragma once

#include <atomic>
#include <memory>

#include "api/types.h"
#include "base/clock.h"
#include "engine/device_loop.h"
#include "runner/compute_pool.h"

namespace tutti::app {

class Device {
 public:
  // `clock` outlives it. No thread is started yet.
  Device(const Clock* clock, int threads) : threads_(threads), loop_(clock) {}

  int threads() const { return threads_; }
  // The compute threads, started by the first call. Throws std::system_error where the system has
  // no more of them.
  const std::shared_ptr<runner::ComputePool>& pool();
  engine::DeviceLoop& loop() { return loop_; }
  // Of the process, for whoever comes to one of the models. Any thread.
  std::atomic<api::LoadLevel>& memory_level() { return memory_level_; }
  void Start();  // the loop's thread; idempotent

 private:
  const int threads_;
  std::shared_ptr<runner::ComputePool> pool_;
  engine::DeviceLoop loop_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
};

}  // namespace tutti::app
