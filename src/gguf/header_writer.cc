#include "gguf/header_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "gguf/header.h"

namespace tutti::gguf {
namespace {

using Bytes = std::vector<std::byte>;

void PutBytes(Bytes* out, const void* data, size_t size) {
  const std::byte* bytes = static_cast<const std::byte*>(data);
  out->insert(out->end(), bytes, bytes + size);
}
template <typename T>
void PutNumber(Bytes* out, T value) {
  PutBytes(out, &value, sizeof value);
}
void PutText(Bytes* out, std::string_view text) {
  PutNumber(out, static_cast<uint64_t>(text.size()));
  PutBytes(out, text.data(), text.size());
}

}  // namespace

void HeaderWriter::Key(std::string_view key, ValueType type) {
  PutText(&pairs_, key);
  PutNumber(&pairs_, static_cast<uint32_t>(type));
  ++pair_count_;
}

void HeaderWriter::ArrayKey(std::string_view key, ValueType element, uint64_t count) {
  Key(key, ValueType::kArray);
  PutNumber(&pairs_, static_cast<uint32_t>(element));
  PutNumber(&pairs_, count);
}

void HeaderWriter::Copy(const Entry& entry) {
  if (entry.value.is_array()) {
    ArrayKey(entry.key, entry.value.element, entry.value.count);
  } else {
    Key(entry.key, entry.value.type);
  }
  PutBytes(&pairs_, entry.value.data, static_cast<size_t>(entry.value.bytes));
}

void HeaderWriter::U32(std::string_view key, uint32_t value) {
  Key(key, ValueType::kUint32);
  PutNumber(&pairs_, value);
}

void HeaderWriter::F32(std::string_view key, float value) {
  Key(key, ValueType::kFloat32);
  PutNumber(&pairs_, value);
}

void HeaderWriter::Bool(std::string_view key, bool value) {
  Key(key, ValueType::kBool);
  PutNumber(&pairs_, static_cast<uint8_t>(value));
}

void HeaderWriter::String(std::string_view key, std::string_view value) {
  Key(key, ValueType::kString);
  PutText(&pairs_, value);
}

void HeaderWriter::Strings(std::string_view key, std::span<const std::string> values) {
  ArrayKey(key, ValueType::kString, values.size());
  for (const std::string& value : values) PutText(&pairs_, value);
}

void HeaderWriter::Floats(std::string_view key, std::span<const float> values) {
  ArrayKey(key, ValueType::kFloat32, values.size());
  PutBytes(&pairs_, values.data(), values.size_bytes());
}

void HeaderWriter::Bools(std::string_view key, const std::vector<bool>& values) {
  ArrayKey(key, ValueType::kBool, values.size());
  for (const bool value : values) PutNumber(&pairs_, static_cast<uint8_t>(value));
}

void HeaderWriter::Int32s(std::string_view key, std::span<const int32_t> values) {
  ArrayKey(key, ValueType::kInt32, values.size());
  PutBytes(&pairs_, values.data(), values.size_bytes());
}

void HeaderWriter::Tensor(std::string_view name, tensor::DType type, const tensor::Shape& shape,
                          uint64_t bytes) {
  tensors_.push_back({std::string(name), static_cast<uint32_t>(type), shape, bytes});
}

std::vector<std::byte> HeaderWriter::Build(uint64_t alignment) const {
  Bytes out;
  PutBytes(&out, "GGUF", 4);
  PutNumber(&out, uint32_t{3});
  PutNumber(&out, static_cast<uint64_t>(tensors_.size()));
  PutNumber(&out, pair_count_);
  PutBytes(&out, pairs_.data(), pairs_.size());
  uint64_t offset = 0;
  for (const TensorRecord& tensor : tensors_) {
    PutText(&out, tensor.name);
    PutNumber(&out, static_cast<uint32_t>(tensor.shape.dims));
    for (int i = 0; i < tensor.shape.dims; ++i) {
      PutNumber(&out, static_cast<uint64_t>(tensor.shape.ne[static_cast<size_t>(i)]));
    }
    PutNumber(&out, tensor.type);
    PutNumber(&out, offset);
    offset += PaddedTo(tensor.bytes, alignment);
  }
  out.resize(static_cast<size_t>(PaddedTo(out.size(), alignment)));
  return out;
}

uint64_t HeaderWriter::DataBytes(uint64_t alignment) const {
  uint64_t bytes = 0;
  for (const TensorRecord& tensor : tensors_) bytes += PaddedTo(tensor.bytes, alignment);
  return bytes;
}

ComposedSource::ComposedSource(std::vector<std::byte> header,
                               std::span<const uint64_t> tensor_bytes, uint64_t alignment)
    : header_(std::move(header)), size_(header_.size()) {
  extents_.reserve(tensor_bytes.size());
  for (const uint64_t bytes : tensor_bytes) {
    extents_.push_back({size_, size_ + bytes});
    size_ += PaddedTo(bytes, alignment);
  }
}

Status ComposedSource::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset)
    return InvalidArgument(kTruncated, "the file ends before that");
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
