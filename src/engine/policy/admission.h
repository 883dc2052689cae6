// Admission: decides by block counts whether a waiting sequence may start. Pure.
#pragma once

namespace tutti::engine {

struct AdmissionView {
  int available = 0;     // blocks that are free or cached, and not promised
  int new_blocks = 0;    // to hold the tokens it has now, beyond those it shares or holds
  int worst_blocks = 0;  // to hold all it may come to, beyond those
  int revived = 0;       // shared blocks without another holder: they stop being available too
  int outstanding = 0;   // blocks that running sequences still need for the tokens they have
  int growing = 0;  // running sequences without a promise: each needs another block now and then
  bool reserve_worst = false;  // no_evict, or a pinned sequence
};

// Blocks that a new sequence may use. One spare block for every four growing sequences (each takes
// a new one every 32 steps) avoids admitting a sequence only to preempt another soon after.
inline int SlackFor(const AdmissionView& v) {
  return v.available - v.outstanding - (v.reserve_worst ? 0 : (v.growing + 3) / 4);
}

// Blocks that a new sequence takes; it may start if this is at most SlackFor().
inline int BlocksToAdmit(const AdmissionView& v) {
  return v.revived + (v.reserve_worst ? v.worst_blocks : v.new_blocks);
}

}  // namespace tutti::engine
