// HeaderBuffer: the front of a GGUF, read as far as the parser has asked, in one growing block of
// memory.
//
// The header's length is known only once it has been parsed. Memory never exceeds 1.5 times the
// file: the block doubles, is capped by the file's size, and is cut to the header's length at the
// end. Not thread-safe while reading; immutable afterwards.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/status.h"
#include "files/source.h"

namespace tutti::gguf {

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

}  // namespace tutti::gguf
