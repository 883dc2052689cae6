#include "gguf/composed_source.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "gguf/header.h"

namespace tutti::gguf {

ComposedSource::ComposedSource(std::vector<std::byte> header,
                               std::span<const uint64_t> tensor_bytes, uint64_t alignment)
    : header_(std::move(header)), size_(header_.size()) {
  extents_.reserve(tensor_bytes.size());
  for (const uint64_t bytes : tensor_bytes) {
    extents_.push_back({size_, size_ + bytes});
    size_ += (bytes + alignment - 1) / alignment * alignment;
  }
}

Status ComposedSource::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset)
    return InvalidArgument(std::string(kTruncated), "the file ends before that");
  std::fill(out.begin(), out.end(), std::byte{0});  // bytes that no tensor covers are padding
  const uint64_t end = offset + out.size();
  if (offset < header_.size()) {
    const uint64_t until = std::min<uint64_t>(end, header_.size());
    std::memcpy(out.data(), header_.data() + offset, static_cast<size_t>(until - offset));
  }
  auto extent = std::partition_point(extents_.begin(), extents_.end(),
                                     [&](const Extent& before) { return before.end <= offset; });
  for (; extent != extents_.end() && extent->begin < end; ++extent) {
    const uint64_t from = std::max(offset, extent->begin);
    const uint64_t until = std::min(end, extent->end);
    if (from >= until) continue;  // a tensor without bytes
    RETURN_IF_ERROR(ReadTensor(
        static_cast<size_t>(extent - extents_.begin()), from - extent->begin,
        out.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(until - from))));
  }
  return OkStatus();
}

}  // namespace tutti::gguf
