#include "gguf/header.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "gguf/parser.h"

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
    return Refuse("gguf_truncated", "the file ends at byte {}, its header needs at least {}",
                  file_bytes(), end);
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

Status Header::Parse(std::shared_ptr<const files::Source> source, Header* header) {
  const uint64_t size = source->size();
  return ParseFront(std::move(source), size, header);
}

Status Header::ParseFront(std::shared_ptr<const files::Source> source, uint64_t file_bytes,
                          Header* header) {
  CHECK_GE(file_bytes, source->size());
  *header = Header();
  header->file_bytes_ = file_bytes;
  header->buffer_ = HeaderBuffer(std::move(source));
  return Parser(header).Run();
}

std::string_view Header::KeyOf(const EntryRecord& record) const {
  return {reinterpret_cast<const char*>(buffer_.data()) + record.key_at, record.key_bytes};
}

Entry Header::entry(size_t i) const {
  const EntryRecord& record = entries_.at(i);
  return {KeyOf(record),
          {record.type, record.element, record.count, buffer_.data() + record.value_at,
           record.value_bytes}};
}

std::optional<Value> Header::Find(std::string_view key) const {
  const auto at =
      std::lower_bound(keys_sorted_.begin(), keys_sorted_.end(), key,
                       [&](uint32_t i, std::string_view k) { return KeyOf(entries_[i]) < k; });
  if (at == keys_sorted_.end() || KeyOf(entries_[*at]) != key) return std::nullopt;
  return entry(*at).value;
}

const TensorInfo* Header::FindTensor(std::string_view name) const {
  return names_.Find(tensors_, name);
}

}  // namespace tutti::gguf
