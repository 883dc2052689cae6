// The four scheduling strategies: each is defined by the answers of these four functions, the rest
// of the engine is the same for all. Pure functions over plain values.
#pragma once

#include "base/clock.h"
#include "engine/options.h"

namespace tutti::engine {

// How many sequences may run together.
int MaxNumSeqs(const SchedulerOptions& options);

// Whether one forward pass serves all active sequences, or each gets its own in turn.
bool SharedForward(Strategy strategy);

// Whether a choice waits for a sibling that is computing their common prompt, rather than computing
// it again.
bool WaitsForSibling(Strategy strategy);

struct QueueView {
  int running = 0;             // sequences that run
  int waiting = 0;             // sequences that want one
  TimePoint oldest_waiting{};  // arrival of the first of them
  TimePoint now{};
};

// Earliest time of the next admission: now or before = at once; later = not before that time
// (static batches fill up); TimePoint::max() = not until something changes.
TimePoint AdmissionOpens(const SchedulerOptions& options, const QueueView& queue);

}  // namespace tutti::engine
