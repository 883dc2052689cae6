// Supervise: runs the work of a process in a child process and restarts it after a crash.
#pragma once

#include <functional>

namespace tutti::app {

// Calls `work` in a child process; parent and child both return its result. A child that is killed
// by a signal is restarted after 0.2 s, and after up to 30 s if children die early. SIGTERM and
// SIGINT are forwarded and end the restarts; a child that a signal has ended then gives 128 + the
// signal. If the parent is killed, the child gets SIGTERM. Call it before any thread exists. If
// fork() fails, `work` runs in this process.
int Supervise(const std::function<int()>& work);

}  // namespace tutti::app
