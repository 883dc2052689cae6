// Handling of out-of-memory errors that no request can be refused for: the process ends with one
// line instead of a report by the run-time library. For all threads.
#pragma once

namespace tutti::app {

// An uncaught std::bad_alloc prints one line and ends the process with exit status 1; other
// exceptions behave as before. Call it once, before other threads exist.
void EndInOneLineWithoutMemory();
// Like the above, but ends with SIGABRT, for a process with a supervisor that restarts it after a
// signal.
void EndBySignalWithoutMemory();

// Prints the line; allocates no memory.
void ReportLackOfMemory();

}  // namespace tutti::app
