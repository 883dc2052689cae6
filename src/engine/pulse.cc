#include "engine/pulse.h"

#include <algorithm>
#include <string>

namespace tutti::engine {
namespace {

// Minimum time without progress that counts as a stall; also at least 20 average steps.
constexpr Duration kStuck = std::chrono::seconds(10);

}  // namespace

void Pulse::Beat(TimePoint now) {
  beat_ns_.store(now.time_since_epoch().count(), std::memory_order_release);
}

void Pulse::StepTook(Duration took) {
  const auto sample = static_cast<double>(took.count());
  average_ns_ += average_ns_ == 0 ? sample : (sample - average_ns_) / 16;
}

void Pulse::Publish(bool has_requests, TimePoint now) {
  step_ns_.store(static_cast<int64_t>(average_ns_), std::memory_order_relaxed);
  alive_.store(has_requests, std::memory_order_relaxed);
  Beat(now);
}

Heartbeat Pulse::Read(const Mailbox& mailbox) const {
  Heartbeat beat;
  // If the loop slept, lateness counts from the arrival of the work, not from the last iteration.
  const TimePoint pending = mailbox.pending_since();
  beat.last_round = TimePoint(Duration(beat_ns_.load(std::memory_order_acquire)));
  beat.busy = alive_.load(std::memory_order_acquire) || pending != TimePoint::max();
  if (!alive_.load(std::memory_order_acquire) && pending != TimePoint::max()) {
    beat.last_round = std::max(beat.last_round, pending);
  }
  beat.average_step = Duration(step_ns_.load());
  return beat;
}

Status LiveBy(const Heartbeat& beat, TimePoint now) {
  if (!beat.busy) return OkStatus();
  const Duration silent = now - beat.last_round;
  if (silent <= std::max(kStuck, beat.average_step * 20)) return OkStatus();
  return Unavailable(
      "engine_stalled",
      "no step has ended for " + std::to_string(static_cast<int64_t>(ToSeconds(silent))) + " s");
}

}  // namespace tutti::engine
