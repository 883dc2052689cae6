#include "sampling/row_ops.h"

#include <array>

namespace tutti::sampling {

namespace baseline {
extern const RowOps kOps;
}
#if defined(__x86_64__)
namespace avx2 {
extern const RowOps kOps;
}
namespace avx512 {
extern const RowOps kOps;
}
#endif

namespace {

struct Available {
  std::array<const RowOps*, 3> ops{};
  size_t count = 0;
  Available() {
    ops[count++] = &baseline::kOps;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) ops[count++] = &avx2::kOps;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
      ops[count++] = &avx512::kOps;
#endif
  }
};

const Available& Found() {
  static const Available found;
  return found;
}

}  // namespace

const RowOps& PickedRowOps() { return *Found().ops[Found().count - 1]; }

size_t AllRowOps(const RowOps* const** list) {
  *list = Found().ops.data();
  return Found().count;
}

}  // namespace tutti::sampling

// The variant that every processor can execute.
#define TUTTI_ROW_OPS baseline
#include "sampling/row_ops_impl.inc"
