#include "gguf/header_buffer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::gguf {
namespace {

// Most headers of small vocabularies fit in a few of these; a read of this size costs about 20 us.
constexpr uint64_t kFirstRead = 64 * 1024;

}  // namespace

Status HeaderBuffer::Resize(uint64_t bytes) {
  std::byte* moved = static_cast<std::byte*>(std::realloc(block_.get(), bytes));
  if (moved == nullptr) {
    return ResourceExhausted("out_of_memory",
                             fmt::format("no memory for a header of {} bytes", bytes));
  }
  (void)block_.release();
  block_.reset(moved);
  return OkStatus();
}

Status HeaderBuffer::Require(uint64_t end) {
  if (end <= loaded_) return OkStatus();
  if (end > file_bytes()) {
    return InvalidArgument(
        "gguf_truncated",
        fmt::format("the file ends at byte {}, its header needs at least {}", file_bytes(), end));
  }
  const uint64_t target = std::min(std::max({end, 2 * loaded_, kFirstRead}), file_bytes());
  RETURN_IF_ERROR(Resize(target));
  RETURN_IF_ERROR(source_->ReadAt(loaded_, {block_.get() + loaded_, target - loaded_}));
  loaded_ = target;
  return OkStatus();
}

void HeaderBuffer::TrimTo(uint64_t end) {
  if (end == 0 || end >= loaded_) return;
  // Shrinking may fail only by keeping the larger block.
  if (Resize(end).ok()) loaded_ = end;
}

}  // namespace tutti::gguf
