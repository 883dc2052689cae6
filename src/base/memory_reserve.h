// A thread's memory reserve, for small operations that must succeed even when memory is short, such
// as sending a client the error.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace tutti {

// Allocates the calling thread's reserve (64 KiB) unless it has one or memory is short.
void KeepMemoryReserve() noexcept;
// Frees the reserve, so that the next allocations can use it.
void OpenMemoryReserve() noexcept;

// Calls `work` until it does not throw std::bad_alloc: the second time with the reserve freed, then
// every millisecond, while the large requests that use the memory are refused. Retries without
// limit, so it is only for threads that serve nothing but a queue of their own (the HTTP server's
// helpers, the preparation of prompts). `work` starts from its beginning each time.
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
