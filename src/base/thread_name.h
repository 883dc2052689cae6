// Thread names as ps, top and debuggers show them (/proc/PID/task/TID/comm); ARCHITECTURE.md has
// the table of threads.
#pragma once

#include <pthread.h>

namespace tutti {

// Names the calling thread, and the threads that it starts later until they set their own names.
// The kernel refuses names of more than 15 characters: the name is then unchanged.
inline void NameThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

}  // namespace tutti
