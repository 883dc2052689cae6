#include "kernels/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <limits>

namespace tutti::kernels {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t bytes) {
  AlignedBuffer out;
  if (bytes == 0) return out;
  const bool huge = bytes >= kHugePage;
  const size_t slack = huge ? kHugePage : 0;  // mmap aligns to pages only
  if (bytes <= std::numeric_limits<size_t>::max() - slack) {
    void* mapping =
        mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping != MAP_FAILED) {
      out.mapping_ = mapping;
      out.mapped_ = bytes + slack;
      const uintptr_t start = reinterpret_cast<uintptr_t>(mapping);
      const uintptr_t aligned = huge ? (start + kHugePage - 1) / kHugePage * kHugePage : start;
      out.data_ = reinterpret_cast<std::byte*>(aligned);
      out.size_ = bytes;
      // Advice only: without huge pages the same bytes are merely slower.
      if (huge) (void)madvise(out.data_, bytes, MADV_HUGEPAGE);
      return out;
    }
  }
  return ResourceExhausted("out_of_memory",
                           "no memory for " + std::to_string(bytes >> 20) + " MiB in one piece");
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

}  // namespace tutti::kernels
