// HeaderWriter: the bytes of a GGUF before its data: pairs and tensors in the order they were
// added.
//
// A value; one thread. It checks nothing: a header with untrusted contents must be parsed with
// Header::Parse before it is used.
// Source: the GGUF specification, version 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "gguf/value.h"
#include "tensor/dtype.h"

namespace tutti::gguf {

class HeaderWriter {
 public:
  // A pair of a file that was read, byte by byte.
  void Copy(const Entry& entry);
  void U32(std::string_view key, uint32_t value);
  void F32(std::string_view key, float value);
  void Bool(std::string_view key, bool value);
  void String(std::string_view key, std::string_view value);
  void Strings(std::string_view key, std::span<const std::string> values);
  void Floats(std::string_view key, std::span<const float> values);
  void Bools(std::string_view key, const std::vector<bool>& values);
  void Int32s(std::string_view key, std::span<const int32_t> values);

  // Its `bytes` lie behind those of the tensor before, padded.
  void Tensor(std::string_view name, tensor::DType type, const tensor::Shape& shape,
              uint64_t bytes);

  // The header with its padding; the first tensor begins at its end. `alignment`: the value in the
  // pairs, or 32 if they have none.
  std::vector<std::byte> Build(uint64_t alignment) const;
  // Bytes of the data of all tensors, each padded to `alignment`.
  uint64_t DataBytes(uint64_t alignment) const;

 private:
  struct TensorRecord {
    std::string name;
    uint32_t type;
    tensor::Shape shape;
    uint64_t bytes;
  };
  void Key(std::string_view key, ValueType type);
  void ArrayKey(std::string_view key, ValueType element, uint64_t count);

  std::vector<std::byte> pairs_;
  uint64_t pair_count_ = 0;
  std::vector<TensorRecord> tensors_;
};

// Presents a GGUF that exists in no single file: the header is in memory, the tensors' bytes are
// read from elsewhere.
//
// Base class: a subclass reads the bytes of a tensor. Immutable; ReadAt from any thread.
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
