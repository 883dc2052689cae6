// A thread's reserve of memory, for the small things that must happen even where memory is short:
// above all to tell a client so.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace tutti {

// Sets the calling thread's reserve aside (64 KiB) unless it has one, if there is memory for it.
void KeepMemoryReserve() noexcept;
// Gives it up, for the allocations that follow.
void OpenMemoryReserve() noexcept;

// Calls `work` again while it ends in std::bad_alloc, the second time with the reserve opened, then
// a millisecond apart: the large requests that took the memory are refused meanwhile. There is no
// limit to this: only for threads that serve no more than a queue of their own (the helpers of the
// HTTP door, the preparation of prompts). `work` is tried from its beginning each time.
template <typename Work>
void UntilMemory(const Work& work) {
  for (bool opened = false;; opened = true) {
    try {
      work();
      return KeepMemoryReserve();
    } catch (const std::bad_alloc&) {
      OpenMemoryReserve();
      if (opened) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace tutti
