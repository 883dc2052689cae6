// Supervise: runs the work of a process in a child, and again when something kills it: the engine
// is a crash domain of its own, and comes back by itself.
#pragma once

#include <functional>

namespace tutti::app {

// Calls `work` in a child process and returns what it returned there, in both: the child of a
// process that was killed by a signal is followed by another, 0.2 s later at first and up to 30 s
// where they die young. SIGTERM and SIGINT are passed on; then no child follows, and one that a
// signal has ended makes it 128 + that signal. Should this process be killed, the child gets
// SIGTERM. Call it before any thread exists. `work` runs in this process where no other is to be
// had.
int Supervise(const std::function<int()>& work);

}  // namespace tutti::app
