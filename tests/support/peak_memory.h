// PeakGrowth: how much memory something takes at its worst, for limits that tests hold.
#pragma once

#include <cstdint>
#include <functional>

namespace tutti::support {

// Runs fn in a child process and returns by how much its peak resident memory grew, in bytes. Ends
// the test program when the child fails. Meaningless under sanitizers, whose shadow memory counts.
int64_t PeakGrowth(const std::function<void()>& fn);

// As above, for the second of two calls of fn: without the pages of the program and its libraries
// that the first one reads, about a MiB.
int64_t PeakGrowthOfSecondCall(const std::function<void()>& fn);

}  // namespace tutti::support
