// Who is first: fair share between tenants, then priority with aging, then arrival. Pure.
#pragma once

#include <cstdint>

#include "api/types.h"
#include "base/clock.h"

namespace tutti::engine {

// Service is counted in tokens: a computed prompt token costs 1, a drawn one 2 (VTC: Sheng et al.,
// "Fairness in Serving Large Language Models", OSDI 2024). Cached and recomputed tokens are free.
inline constexpr double kPromptTokenCost = 1;
inline constexpr double kOutputTokenCost = 2;

// 0 = first. Waiting `aging` lifts by one class, so that under constant high load a batch request
// still runs.
inline int EffectiveClass(api::Priority priority, Duration waited, Duration aging) {
  const int own = static_cast<int>(priority);
  if (aging.count() <= 0 || waited.count() <= 0) return own;
  const int64_t lifted = own - waited / aging;
  return lifted > 0 ? static_cast<int>(lifted) : 0;
}

// Of two sequences of a tenant, where all lanes are taken.
struct LaneClaim {
  int priority = 0;   // as asked for
  int effective = 0;  // as lifted by the time since it was queued, also of one that runs
};
// Whether one that waits may have the lane of one that runs: only a higher class may, which waiting
// alone does not bring, and not of one that is old enough to stand before it in the queue again.
// Between tenants lanes are shared by service, and change hands when a sequence ends.
inline bool TakesLaneFrom(const LaneClaim& waiting, const LaneClaim& running) {
  return waiting.priority < running.priority && waiting.effective < running.effective;
}

// Whether one of the batch class sits out a step in which a prompt of an interactive request is
// computed: beside seven rows a prompt of a few words takes twice as long as alone. It has had no
// turn for `steps`; after a few it takes part, so that prompts without end do not stop it.
inline constexpr uint64_t kMostYields = 8;
inline bool SitsOut(api::Priority priority, uint64_t steps) {
  return priority == api::Priority::kBatch && steps <= kMostYields;
}

// A step of batch work alone that is under way when an interactive request comes is given up for
// it: a prompt of a few words takes little longer than the step. So many are at most, then one is
// finished, however many come.
inline constexpr int kMostGivenUp = 3;

// Order in which running sequences keep their blocks: the last one that may be preempted is the
// victim.
struct KeepKey {
  bool pinned = false;
  int priority = 0;
  uint64_t arrival = 0;
  int choice = 0;
};
inline bool KeepsBefore(const KeepKey& a, const KeepKey& b) {
  if (a.pinned != b.pinned) return a.pinned;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.arrival != b.arrival) return a.arrival < b.arrival;
  return a.choice < b.choice;
}

}  // namespace tutti::engine
