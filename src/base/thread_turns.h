// How long the kernel lets a thread run at a time where more threads want to run than there are
// cores.
//
// Threads that wake often and briefly (doors, the strand, the store) would each wait for a compute
// thread's turn to end, 3 to 4 ms as Linux has it, and a message passes five of them on its way. A
// thread that asks for short turns runs as soon as it wakes, before those with longer ones; its
// share of the processor stays what it was (EEVDF: a shorter slice is an earlier deadline of the
// same weight; sched(7), sched_setattr(2), Linux 6.12; older kernels and other schedulers ignore
// it). New threads take it over from the one that makes them.
#pragma once

namespace tutti {

// For a thread that waits most of its time. Never fails: where it cannot be had nothing changes.
void PreferShortTurns();
// For one that computes: what PreferShortTurns() did is undone.
void PreferLongTurns();

}  // namespace tutti
