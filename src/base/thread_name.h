// The name by which a thread is known to ps, top and debuggers (/proc/PID/task/TID/comm), as the
// table of threads in ARCHITECTURE.md has it.
#pragma once

#include <pthread.h>

namespace tutti {

// Of the calling thread, and of threads that it starts until they take their own. The system keeps
// 15 characters, and refuses a longer name: nothing changes then.
inline void NameThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

}  // namespace tutti
