// PeakGrowth: how much memory something takes at its worst, for limits that tests hold.
#pragma once

#include <cstdint>
#include <functional>

namespace tutti::support {

// Runs fn in a child process and returns by how much its peak resident memory grew, in bytes. Ends
// the test program when the child fails. Meaningless under sanitizers, whose shadow memory counts.
int64_t PeakGrowth(const std::function<void()>& fn);

}  // namespace tutti::support
