// One simulated schedule: everything in it follows from its seed.
//
// At least 20 requests with random arrivals, lengths, choices, priorities, tenants, shared
// beginnings, cancels, deadlines, slow readers and on-demand stepping go through the real engine
// under virtual time, with a KV pool of 30 to 80 % of what its sequences could use, while
// allocations, single slices and whole steps fail at random. Some models have recurrent states,
// with slots for few or many checkpoints; some engines have a prefix store, which may be slow, full
// or failing. Some requests pin their prompts for a time. After every step the invariants are
// checked; at the end, that each request ended once and for an allowed reason, that every output
// equals (or, if it was cut short, begins) its solo output, and that nothing is left behind.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::engine {

struct ScheduleReport {
  std::string failure;  // empty: all held
  int requests = 0;
  int ended_ok = 0, cancelled = 0, expired = 0, failed = 0, refused = 0;
  int64_t steps = 0, tokens = 0;
  int64_t preemptions = 0, prefix_hit_tokens = 0, reader_pauses = 0, injected_faults = 0;
  int64_t drafts = 0, accepted = 0;  // tokens proposed, and those that came true
  // Hits of models with recurrent states, a part of prefix_hit_tokens.
  int64_t state_hit_tokens = 0, checkpoints_evicted = 0;
  int64_t window_hit_tokens = 0;  // of models with blocks of their own for windows
  int64_t loaded_tokens = 0;      // read from a prefix store, and ...
  int64_t failed_loads = 0;       // ... loads that did not find all they began for
  int64_t pins = 0;
  double pool_share = 0;  // pool / need
};

ScheduleReport RunSchedule(uint64_t seed, bool trace = false);

}  // namespace tutti::engine
