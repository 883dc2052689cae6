// ComposedSource: presents a GGUF that exists in no single file: the header is in memory, the
// tensors' bytes are read from elsewhere.
//
// Base class: a subclass reads the bytes of a tensor. Immutable; ReadAt from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "files/source.h"

namespace tutti::gguf {

class ComposedSource : public files::Source {
 public:
  uint64_t size() const final { return size_; }
  // Errors: gguf_truncated beyond the end, and those of ReadTensor.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const final;

 protected:
  // `header`: as HeaderWriter::Build(alignment) gives it. `tensor_bytes`: of each tensor, without
  // padding, in the order in which the header lists them.
  ComposedSource(std::vector<std::byte> header, std::span<const uint64_t> tensor_bytes,
                 uint64_t alignment);

 private:
  // Fills `out` with bytes of tensor `index` from `offset`; both lie within the tensor.
  virtual Status ReadTensor(size_t index, uint64_t offset, std::span<std::byte> out) const = 0;

  struct Extent {
    uint64_t begin;
    uint64_t end;  // without padding
  };

  const std::vector<std::byte> header_;
  std::vector<Extent> extents_;  // of the tensors, ascending
  uint64_t size_ = 0;
};

}  // namespace tutti::gguf
