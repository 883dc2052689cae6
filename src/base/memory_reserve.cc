#include "base/memory_reserve.h"

#include <memory>

namespace tutti {
namespace {

// Small enough to lie in the thread's own arena of the allocator, where its next blocks will.
constexpr size_t kReserveBytes = 64 << 10;
thread_local std::unique_ptr<char[]> reserve;

}  // namespace

void KeepMemoryReserve() noexcept {
  if (reserve == nullptr) reserve.reset(new (std::nothrow) char[kReserveBytes]);
}

void OpenMemoryReserve() noexcept { reserve.reset(); }

}  // namespace tutti
