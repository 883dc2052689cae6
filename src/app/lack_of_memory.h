// How the process ends when memory runs out on a thread of its own, in something too small to be
// refused to anybody: in one line instead of a report by the run-time library. All threads.
#pragma once

namespace tutti::app {

// std::bad_alloc that nobody catches tells and ends the process with exit status 1; other
// exceptions end it as before. Once, before other threads.
void EndInOneLineWithoutMemory();
// The same by SIGABRT, for a process that another one starts again when a signal ends it.
void EndBySignalWithoutMemory();

// The line; takes no memory.
void TellLackOfMemory();

}  // namespace tutti::app
