#include "engine/testing/allocation_count.h"

#ifndef TUTTI_SANITIZED
#include <cstdlib>
#include <new>

namespace tutti::engine::testing {

thread_local AllocationCount allocation_count;

namespace {

void* Counted(size_t size, size_t alignment) {
  AllocationCount& count = allocation_count;
  if (count.armed) {
    ++(size == count.ignored_size ? count.ignored : count.allocations);
    if (count.fail_at != 0 && count.allocations == count.fail_at) throw std::bad_alloc();
  }
  void* memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace
}  // namespace tutti::engine::testing

using tutti::engine::testing::Counted;

void* operator new(size_t size) { return Counted(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Counted(size, static_cast<size_t>(alignment));
}
// A sanitizer's own would not come from malloc().
void* operator new(size_t size, const std::nothrow_t&) noexcept try {
  return Counted(size, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
