// BumpAllocator: a bump allocator: splits one allocation into pieces, each aligned to a 64-byte
// cache line.
//
// Used twice with the same calls: first without memory, to compute the total size, then with an
// allocation of that size.
#pragma once

#include <cstddef>

namespace tutti::model {

class BumpAllocator {
 public:
  explicit BumpAllocator(std::byte* base) : base_(base) {}
  template <typename T>
  T* Take(size_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace tutti::model
