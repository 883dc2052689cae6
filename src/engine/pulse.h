// Pulse: heartbeat of a slot, for the liveness probe. Written by the engine thread, read by any.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "engine/mailbox.h"

namespace tutti::engine {

// For the liveness probe.
struct Heartbeat {
  // Last iteration of the loop. While busy the loop iterates at least every 0.5 s between steps.
  TimePoint last_round{};
  bool busy = false;         // it has requests
  Duration average_step{0};  // moving average; zero before the first
};

// Period of the loop's iterations while it has requests but no step to run.
inline constexpr Duration kIdleBeat = std::chrono::milliseconds(500);

class Pulse {
 public:
  // --- engine thread ---
  void Beat(TimePoint now);
  // Called as soon as a request arrives: the slot counts as busy from then on.
  void HasRequests() { alive_.store(true, std::memory_order_release); }
  void StepTook(Duration took);
  void Publish(bool has_requests, TimePoint now);  // after each step

  // --- any thread ---
  Heartbeat Read(const Mailbox& mailbox) const;

 private:
  double average_ns_ = 0;  // engine thread
  std::atomic<int64_t> beat_ns_{0}, step_ns_{0};
  std::atomic<bool> alive_{false};
};

// Error engine_stalled when the slot has requests and its last iteration is older than 10 s and
// than 20 average steps.
Status LiveBy(const Heartbeat& beat, TimePoint now);

}  // namespace tutti::engine
