#include "base/memory_reserve.h"

#include <pthread.h>

#include <cstdlib>

#include "base/check.h"

namespace tutti {
namespace {

// Small enough to be in the allocator arena of the thread, so that its next allocations can use it.
constexpr size_t kReserveBytes = 64 << 10;

// Not a thread_local with a destructor: registering the destructor allocates memory, and the C
// library aborts if that fails.
pthread_key_t Key() {
  static const pthread_key_t key = [] {
    pthread_key_t made = 0;
    CHECK(pthread_key_create(&made, std::free) == 0);
    return made;
  }();
  return key;
}

}  // namespace

void KeepMemoryReserve() noexcept {
  if (pthread_getspecific(Key()) != nullptr) return;
  void* reserve = std::malloc(kReserveBytes);
  if (pthread_setspecific(Key(), reserve) != 0) std::free(reserve);
}

void OpenMemoryReserve() noexcept {
  std::free(pthread_getspecific(Key()));
  (void)pthread_setspecific(Key(), nullptr);
}

}  // namespace tutti
