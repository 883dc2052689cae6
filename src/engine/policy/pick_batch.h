// Which waiting items form the next batch of an encoder. Pure, over plain values.
//
// Items stand in two lines. Singles are those of small interactive requests; they go ahead of bulk
// items, which are sure of a share of every batch. Within a line items are picked by length, a run
// of similar ones around the first in line, so that a batch is filled well and lasts as long as it
// was reckoned to; but each may be passed over only so often.
#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/policy/batch_cost.h"

namespace tutti::engine {

struct Candidate {
  int tokens = 0;
  int passed = 0;       // batches that took an item behind it in its line, and not it
  bool picked = false;  // out
};

struct BatchLimits {
  int items = 0;
  int tokens = 0;
  Duration time = Duration::max();  // by the cost model; one item always goes
};

struct PickInputs {
  BatchLimits limits;
  int max_passed = 3;     // an item passed over so often is not passed over again
  double bulk_claim = 0;  // part of this batch that bulk items are sure of: 0..1, saved up
  const BatchCost* cost = nullptr;
};

struct PickedBatch {
  BatchShape shape;
  double bulk_part = 0;  // of a whole batch, that bulk items took
  bool full = false;     // an item was left because it did not fit
  bool aged = false;     // full, and an item went because it had been passed over max_passed times
};

// What part of a whole batch an item takes by itself: of its items, tokens or time, whichever is
// most.
double BatchPart(int tokens, const BatchLimits& limits, const BatchCost& cost);

// Marks `picked` in both lines, each given in the order of its turn and of the window's length at
// most, and counts `passed` up in those that an item behind them went before. Never an empty batch
// where anything waits. `scratch` is memory for the call.
PickedBatch PickBatch(const PickInputs& in, std::span<Candidate> singles, std::span<Candidate> bulk,
                      std::vector<int>& scratch);

}  // namespace tutti::engine
