#include "gguf/header.h"

#include <algorithm>

#include "base/check.h"
#include "gguf/parser.h"

namespace tutti::gguf {

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
  const auto at =
      std::lower_bound(names_sorted_.begin(), names_sorted_.end(), name,
                       [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (at == names_sorted_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

}  // namespace tutti::gguf
