// MemoryWatch: computes the memory level of the process. At most four times a second it compares
// the resident size with the limit and publishes the level to admission, the log and the health
// probes. The thresholds follow Envoy's overload manager: at 80 % only interactive requests are
// accepted, at 95 % free memory is returned to the system, at 98 % all new requests are refused.
//
// The percentages refer to the memory that remains after weights and KV cache, which were planned
// and do not shrink. KV cache pages count as planned even before a request has touched them; until
// then other allocations can grow into their space undetected.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "api/inference.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/log.h"

namespace tutti::app {

class MemoryWatch final : public api::HealthProbe {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(250);
  static constexpr double kShrink = 0.95;
  static constexpr Duration kShrinkEvery = std::chrono::seconds(5);
  // Hysteresis: a level ends when the share is this much below the level's threshold.
  static constexpr double kSlack = 0.03;
  // Lower bound for the room that remains after the models; used when they leave less.
  static constexpr int64_t kLeastRoom = int64_t{16} << 20;

  struct Ports {
    std::function<int64_t()> resident;  // bytes; 0 = not known
    std::function<void()> shrink;       // gives back what is free, or can be had again
  };

  // `limit`: bytes that the process can have; 0 = not known, and the level stays green. `level` is
  // written. All outlive it.
  MemoryWatch(const api::HealthProbe& inner, int64_t limit, Ports ports,
              std::atomic<api::LoadLevel>& level, const Clock& clock, Logger& log);

  // --- one thread ---
  // Now and then.
  void Look();

  // --- any thread ---
  // Checks the room left after the models; without any, every request would be refused. Errors:
  // out_of_memory.
  Status CheckRoom() const;
  // Called when the models are loaded: the present resident size plus `later` untouched bytes count
  // as planned. Before this call the level is green.
  void ModelsAreLoaded(int64_t later);

  struct Figures {
    int64_t limit = 0, planned = 0, resident = 0;  // bytes
    api::LoadLevel level = api::LoadLevel::kGreen;
  };
  Figures figures() const;  // as of the last look

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors: those of `inner`; overloaded at level red.
  Status ready() const override;

 private:
  double Share(int64_t resident) const;

  const api::HealthProbe& inner_;
  const int64_t limit_;
  const Ports ports_;
  std::atomic<api::LoadLevel>& level_;
  const Clock& clock_;
  Logger& log_;
  std::atomic<int64_t> planned_{0};  // 0 = nothing is loaded
  std::atomic<int64_t> resident_{0};
  TimePoint next_look_ = TimePoint::min(), next_shrink_ = TimePoint::min();
};

}  // namespace tutti::app
