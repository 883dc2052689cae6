// AlignedBuffer: zeroed anonymous memory, aligned for kernels and backed by huge pages where the
// kernel grants them.
//
// Owner: move-only value; unmapped when destroyed. Thread: as any value. Pages appear when first
// touched, on the NUMA node of the toucher. Errors: out_of_memory with the size.
#pragma once

#include <cstddef>
#include <utility>

#include "base/status.h"

namespace tutti::kernels {

inline constexpr size_t kCacheLine = 64;
constexpr size_t RoundUpToLine(size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // `bytes` may be 0. Buffers of 2 MiB and more start on a 2 MiB border, smaller ones on a page.
  static Result<AlignedBuffer> Allocate(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept { Swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    AlignedBuffer moved(std::move(other));
    Swap(moved);
    return *this;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void Swap(AlignedBuffer& other) {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tutti::kernels
