// MemoryWatch: the process's level of memory. Four times a second at most it compares what is
// resident with what there is, says so to the doors of the models, to the log and to health probes,
// and gives back what the allocator keeps before it comes to refusals. As Envoy's overload manager
// does: at 95 % shrink, at 98 % refuse, at 80 % refuse all but interactive requests.
//
// The weights and the KV cache are not counted: they were planned, and do not go by themselves. The
// shares are of what is left beside them; of the KV cache also as long as no request has touched
// it, so that until then something else may grow into its room unseen.
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
  // A level is left when its share is that much below where it begins.
  static constexpr double kSlack = 0.03;
  // What counts as left beside the models where they leave less.
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
  // Errors: out_of_memory, where what is resident leaves nothing to answer with: nobody would ever
  // be taken in.
  Status CheckRoom() const;
  // The models are loaded, which hold what is resident now; `later` bytes more of them are not
  // touched yet. Before, the level is green.
  void ModelsAreLoaded(int64_t later);

  struct Figures {
    int64_t limit = 0, planned = 0, resident = 0;  // bytes
    api::LoadLevel level = api::LoadLevel::kGreen;
  };
  Figures figures() const;  // as of the last look

  Status started() const override { return inner_.started(); }
  Status live() const override { return inner_.live(); }
  // Errors, beside those of `inner`: overloaded, at red.
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
