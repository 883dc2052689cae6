// Preloaded (LD_PRELOAD): one allocation of one thread fails, as if memory ran out for a moment.
//
// FAIL_THREAD is the number of the thread, in the order of first allocations; 0 is the thread that
// loads this library. FAIL_ALLOCATION is the number of the allocation in that thread, from 1.
// "[failed]" on standard error shows that the allocation was reached.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
}

namespace {

int fail_thread = -1, fail_allocation = 0;
std::atomic<int> threads{0};
thread_local int thread = -1, allocations = 0;

int Number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

__attribute__((constructor)) void ReadOrders() {
  fail_allocation = Number("FAIL_ALLOCATION");
  fail_thread = Number("FAIL_THREAD");
}

bool Fails() {
  if (thread < 0) thread = threads.fetch_add(1);
  if (++allocations != fail_allocation || thread != fail_thread) return false;
  (void)!write(STDERR_FILENO, "[failed]\n", 9);
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" void* malloc(size_t bytes) { return Fails() ? nullptr : __libc_malloc(bytes); }
extern "C" void* calloc(size_t count, size_t bytes) {
  return Fails() ? nullptr : __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* block, size_t bytes) {
  return Fails() ? nullptr : __libc_realloc(block, bytes);
}
