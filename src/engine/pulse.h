// Pulse: whether a slot's loop comes round, for the liveness probe. The engine thread beats, any
// thread reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "engine/mailbox.h"

namespace tutti::engine {

// For the liveness probe.
struct Heartbeat {
  TimePoint
      last_round{};   // when the loop last came round; while busy every 0.5 s, unless a step runs
  bool busy = false;  // it has requests
  Duration average_step{0};  // moving average; zero before the first
};

// With requests alive but nothing to do, the loop still comes round this often.
inline constexpr Duration kIdleBeat = std::chrono::milliseconds(500);

class Pulse {
 public:
  // --- engine thread ---
  void Beat(TimePoint now);
  // At once when a request comes: a probe must not take it for idleness.
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

// engine_stalled when there is work and no round for longer than 10 s and 20 average steps.
Status LiveBy(const Heartbeat& beat, TimePoint now);

}  // namespace tutti::engine
