// Device: compute threads and engine loop that all models of a process share, so that they neither
// oversubscribe the cores nor run at the same time.
//
// Made by LocalInference and shared by its models. For use by one thread at a time, except where
// loop() itself allows more.
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
  // Memory level of the process; admission of requests to any model reads it. Any thread.
  std::atomic<api::LoadLevel>& memory_level() { return memory_level_; }
  void Start();  // the loop's thread; idempotent

 private:
  const int threads_;
  std::shared_ptr<runner::ComputePool> pool_;
  engine::DeviceLoop loop_;
  std::atomic<api::LoadLevel> memory_level_{api::LoadLevel::kGreen};
};

}  // namespace tutti::app
