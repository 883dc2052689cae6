// Header: the validated metadata and tensor table of a GGUF, in memory of about the header's own
// size.
//
// A header that Parse accepts satisfies every rule of the format that does not need the tensors'
// bytes: known version, bounded counts, valid unique keys, well-formed values, legal alignment,
// readable types, shapes whose products do not overflow, and extents that lie in the file, in
// order, without overlap or gap. The file is untrusted until then: no allocation is larger than the
// bytes actually present justify.
//
// Owner: File. Immutable after parsing; any thread.
// Source: the GGUF specification, version 3.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "files/refuse.h"
#include "files/source.h"
#include "gguf/value.h"
#include "tensor/dtype.h"
#include "tensor/name_index.h"

namespace tutti::gguf {

// The front of a GGUF, read as far as the parser has asked, in one growing block of memory.
//
// The header's length is known only once it has been parsed. Memory never exceeds 1.5 times the
// file: the block doubles, is capped by the file's size, and is cut to the header's length at the
// end. Not thread-safe while reading; immutable afterwards.
class HeaderBuffer {
 public:
  HeaderBuffer() = default;
  explicit HeaderBuffer(std::shared_ptr<const files::Source> source) : source_(std::move(source)) {}

  uint64_t file_bytes() const { return source_->size(); }

  // Makes the first `end` bytes readable at data(); may move them. gguf_truncated when the file is
  // shorter.
  Status Require(uint64_t end);
  // Gives back what lies beyond `end`; no Require after this.
  void TrimTo(uint64_t end);
  const std::byte* data() const { return block_.get(); }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  // realloc: for large blocks the kernel moves pages instead of copying, so both copies never
  // coexist.
  Status Resize(uint64_t bytes);

  std::shared_ptr<const files::Source> source_;
  std::unique_ptr<std::byte, Free> block_;
  uint64_t loaded_ = 0;
};

// Caps. Generous against every known model (the largest has about 10^3 tensors per split and 3 *
// 10^5 tokens), small against memory: tables at their caps take 14 MiB.
inline constexpr uint64_t kMaxKeys = 65536;
inline constexpr uint64_t kMaxTensors = 65536;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes = 64;
inline constexpr uint64_t kMaxStringBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxArrayElements = uint64_t{64} << 20;
inline constexpr uint64_t kMaxAlignment = 65536;
inline constexpr uint64_t kDefaultAlignment = 32;

// `size` with the padding that follows it.
constexpr uint64_t PaddedTo(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The code of a file that ends too early or changes while it is read.
inline constexpr std::string_view kTruncated = "gguf_truncated";

using files::Refuse;

struct TensorInfo {
  std::string_view name;
  uint32_t type_id = 0;  // as in the file; a readable type unless Parse refused the file
  tensor::Shape shape;
  uint64_t file_offset = 0;  // of the first byte, from the start of the file
  uint64_t bytes = 0;        // without padding

  tensor::DType dtype() const { return static_cast<tensor::DType>(type_id); }
};

class Header {
 public:
  // Parses from the start of `source`. On failure *header holds what was understood before the
  // fault, for reports; it must not be used to load a model. Codes: gguf_*.
  static Status Parse(std::shared_ptr<const files::Source> source, Header* header);
  // The same of the front of a file of `file_bytes`, at least as many as `source` has: all before
  // the tensors' data must be there, extents are judged by `file_bytes`.
  static Status ParseFront(std::shared_ptr<const files::Source> source, uint64_t file_bytes,
                           Header* header);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t data_offset() const {
    return data_offset_;
  }  // of the data area; the header's padded length
  uint64_t file_bytes() const { return file_bytes_; }
  // Behind the last tensor and its padding: no part of the model. 0 without tensors.
  uint64_t unread_bytes() const { return unread_bytes_; }

  size_t entry_count() const { return entries_.size(); }
  Entry entry(size_t i) const;                            // in file order
  std::optional<Value> Find(std::string_view key) const;  // O(log n)

  std::span<const TensorInfo> tensors() const { return tensors_; }  // in file order
  const TensorInfo* FindTensor(std::string_view name) const;        // O(log n); null when absent

 private:
  friend class Parser;

  struct EntryRecord {  // positions, because the buffer moves while it grows
    uint64_t key_at;
    uint64_t value_at;
    uint64_t value_bytes;
    uint64_t count;
    uint32_t key_bytes;
    ValueType type;
    ValueType element;
  };
  std::string_view KeyOf(const EntryRecord& record) const;

  HeaderBuffer buffer_;
  uint32_t version_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t data_offset_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t unread_bytes_ = 0;
  std::vector<EntryRecord> entries_;
  std::vector<uint32_t> keys_sorted_;  // indices into entries_, by key
  std::vector<TensorInfo> tensors_;
  tensor::NameIndex names_;  // of tensors_
};

}  // namespace tutti::gguf
