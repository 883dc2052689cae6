// Threads as the operating system sees them: the cores for them, their names, their time slices,
// and the hint of a spin loop. Any thread.
#pragma once

#include <pthread.h>

namespace tutti {

// The cores this process may use (affinity respected), at least 1.
int UsableCores();

// Names the calling thread, and the threads that it starts later until they set their own names, as
// ps, top and debuggers show them (/proc/PID/task/TID/comm); ARCHITECTURE.md has the table of
// threads. The kernel refuses names of more than 15 characters: the name is then unchanged.
inline void NameThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

// Time slices: how long the kernel lets a thread run at a time when more threads are runnable than
// there are cores.
//
// Threads that wake often and briefly (servers, the strand, the store) would each wait for a
// compute thread's slice to end, 3 to 4 ms on Linux, and a message passes through five of them. A
// thread with a short slice runs as soon as it wakes, before threads with longer ones; its share of
// the processor is unchanged (EEVDF: a shorter slice means an earlier deadline at the same weight;
// sched(7), sched_setattr(2), Linux 6.12; older kernels and other schedulers ignore it). A new
// thread inherits the slice of the thread that creates it.
//
// For a thread that waits most of its time. Never fails: if the kernel refuses, nothing changes.
void PreferShortTurns();
// For a compute thread: undoes PreferShortTurns().
void PreferLongTurns();

// A hint to the core that this is a spin loop.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // its own hint, yield, costs nothing and gives nothing on most cores
#endif
}

}  // namespace tutti
