// Whether a waiting sequence may start: arithmetic over block counts. Pure.
#pragma once

namespace tutti::engine {

struct AdmissionView {
  int available = 0;     // blocks free or cached and promised to nobody
  int new_blocks = 0;    // to hold the tokens it has now, beyond those it shares or holds
  int worst_blocks = 0;  // to hold all it may come to, beyond those
  int revived = 0;       // shared blocks that nobody else holds: they stop being available too
  int outstanding = 0;   // blocks that running sequences still need for the tokens they have
  int growing = 0;  // running sequences without a promise: each needs another block now and then
  bool reserve_worst = false;  // no_evict, or a pinned sequence
};

// Blocks that a newcomer may count on. One spare block for every four sequences that grow (each
// takes a new one every 32 steps) keeps admission and preemption from chasing each other.
inline int SlackFor(const AdmissionView& v) {
  return v.available - v.outstanding - (v.reserve_worst ? 0 : (v.growing + 3) / 4);
}

// Blocks that it takes; it may start when this is not more than the slack.
inline int BlocksToAdmit(const AdmissionView& v) {
  return v.revived + (v.reserve_worst ? v.worst_blocks : v.new_blocks);
}

}  // namespace tutti::engine
