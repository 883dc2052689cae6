// Scheduling order: fair share between tenants, then priority with aging, then arrival. Pure.
#pragma once

#include <cstdint>

#include "api/types.h"
#include "base/clock.h"

namespace tutti::engine {

// Service is counted in tokens: a computed prompt token costs 1, a drawn one 2 (VTC: Sheng et al.,
// "Fairness in Serving Large Language Models", OSDI 2024). Cached and recomputed tokens are free.
inline constexpr double kPromptTokenCost = 1;
inline constexpr double kOutputTokenCost = 2;

// Priority class after aging, 0 = first: every full `aging` of waiting lifts a request by one
// class, so that batch requests still run under constant load of higher classes.
inline int EffectiveClass(api::Priority priority, Duration waited, Duration aging) {
  const int own = static_cast<int>(priority);
  if (aging.count() <= 0 || waited.count() <= 0) return own;
  const int64_t lifted = own - waited / aging;
  return lifted > 0 ? static_cast<int>(lifted) : 0;
}

// Compares a waiting with a running sequence when max_num_seqs sequences run.
struct RunClaim {
  int priority = 0;   // as asked for
  int effective = 0;  // as lifted by the time since it was queued, also of one that runs
};
// Whether a waiting sequence may preempt a running one of the same tenant. Its class
// as requested must be higher (aging alone never preempts), and its class after aging too, since
// the victim would otherwise be first in the queue again. Another tenant's sequence is never
// preempted: fair share decides when a sequence ends.
inline bool MayPreempt(const RunClaim& waiting, const RunClaim& running) {
  return waiting.priority < running.priority && waiting.effective < running.effective;
}

// Whether a batch-class sequence skips a step in which an interactive request's prompt is computed:
// next to seven other rows a prompt of a few words takes twice as long as alone. `steps`: steps
// since the sequence last took part. After kMaxYields of them it takes part again, so that an
// endless stream of prompts does not starve it.
inline constexpr uint64_t kMaxYields = 8;
inline bool SkipsStep(api::Priority priority, uint64_t steps) {
  return priority == api::Priority::kBatch && steps <= kMaxYields;
}

// When an interactive request arrives during a step that computes batch-class sequences only, the
// step is aborted: finishing it would delay a short prompt by nearly the prompt's own time. After
// this many aborted steps in a row one is finished, however many requests arrive.
inline constexpr int kMaxAbortedSteps = 3;

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
