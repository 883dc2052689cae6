// Time slices: how long the kernel lets a thread run at a time when more threads are runnable than
// there are cores.
//
// Threads that wake often and briefly (servers, the strand, the store) would each wait for a
// compute thread's slice to end, 3 to 4 ms on Linux, and a message passes through five of them. A
// thread with a short slice runs as soon as it wakes, before threads with longer ones; its share of
// the processor is unchanged (EEVDF: a shorter slice means an earlier deadline at the same weight;
// sched(7), sched_setattr(2), Linux 6.12; older kernels and other schedulers ignore it). A new
// thread inherits the slice of the thread that creates it.
#pragma once

namespace tutti {

// For a thread that waits most of its time. Never fails: if the kernel refuses, nothing changes.
void PreferShortTurns();
// For a compute thread: undoes PreferShortTurns().
void PreferLongTurns();

}  // namespace tutti
