#include "base/threads.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace tutti {
namespace {

constexpr uint64_t kShortTurnNs = 100'000;  // the minimum that the kernel accepts
constexpr uint64_t kKernelsOwn = 0;

// struct sched_attr of sched_setattr(2), which the C library does not have.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

// Sets the calling thread's time slice if it is `from_ns` now; policy and nice value stay as they
// are.
void SetTurn(uint64_t from_ns, uint64_t to_ns) {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  if (from_ns != kKernelsOwn && attributes.runtime_ns != from_ns) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = to_ns;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void PreferShortTurns() { SetTurn(kKernelsOwn, kShortTurnNs); }
void PreferLongTurns() { SetTurn(kShortTurnNs, kKernelsOwn); }

}  // namespace tutti
