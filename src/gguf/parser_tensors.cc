// The second half of the header: tensor infos and the layout of the data they describe.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/quote.h"
#include "base/utf8.h"
#include "gguf/metadata.h"
#include "gguf/parser.h"

namespace tutti::gguf {
namespace {

using Wide = unsigned __int128;

constexpr uint64_t kMaxFilePosition = std::numeric_limits<int64_t>::max();
constexpr uint64_t kQuantizationVersion = 2;  // of the block layouts, since May 2023

Wide AlignUp(Wide position, uint64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

}  // namespace

Status Parser::ReadSpecialKeys() {
  constexpr std::string_view kAlignment = "general.alignment";
  // All positions depend on the alignment. Other readers accept it as a uint32 only and would read
  // the file differently.
  const std::optional<Value> value = header_.Find(kAlignment);
  if (value && value->type != ValueType::kUint32) {
    return Refuse("gguf_type", "{} is {}, it must be uint32", kAlignment, TypeName(value->type));
  }
  ASSIGN_OR_RETURN(const uint64_t alignment, GetUintOr(header_, kAlignment, kDefaultAlignment));
  if (alignment == 0 || alignment % 8 != 0 || alignment > kMaxAlignment) {
    return Refuse("gguf_alignment",
                  "general.alignment is {}; it must be a multiple of 8, at most {}", alignment,
                  kMaxAlignment);
  }
  header_.alignment_ = alignment;
  return OkStatus();
}

Status Parser::ParseTensorInfo() {
  const size_t index = header_.tensors_.size();
  uint64_t name_bytes = 0;
  RETURN_IF_ERROR(Read(&name_bytes));
  if (name_bytes > kMaxTensorNameBytes) {
    return Refuse("gguf_key", "the name of tensor {} has {} bytes; at most {}", index, name_bytes,
                  kMaxTensorNameBytes);
  }
  const uint64_t name_at = at_;
  RETURN_IF_ERROR(Skip(name_bytes));
  const std::string raw(Bytes(name_at, name_bytes));
  const std::string name = Quote(raw);
  const bool control = std::any_of(raw.begin(), raw.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (raw.empty() || control || !IsValidUtf8(raw)) {
    return Refuse("gguf_key", "the name of tensor {} is {}", index,
                  raw.empty() ? "empty" : "not plain UTF-8 text: " + name);
  }
  TensorInfo info;
  RETURN_IF_ERROR(ParseExtents(name, &info));
  RETURN_IF_ERROR(Read(&info.type_id));
  RETURN_IF_ERROR(ParseSize(name, &info));
  RETURN_IF_ERROR(Read(&info.file_offset));  // relative to the data area until CheckLayout
  info.name =
      Bytes(name_at, name_bytes);  // its bytes may move; Seal points it at their final place
  name_at_.push_back(name_at);
  header_.tensors_.push_back(info);
  return OkStatus();
}

Status Parser::ParseExtents(const std::string& name, TensorInfo* info) {
  uint32_t dims = 0;
  RETURN_IF_ERROR(Read(&dims));
  if (dims < 1 || dims > tensor::kMaxDims) {
    return Refuse("gguf_shape", "tensor {} has {} dimensions; 1 to {} are legal", name, dims,
                  tensor::kMaxDims);
  }
  info->shape.dims = static_cast<int>(dims);
  Wide elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t extent = 0;
    RETURN_IF_ERROR(Read(&extent));
    if (extent == 0 || extent > kMaxFilePosition) {
      return Refuse("gguf_shape", "dimension {} of tensor {} is {}", i, name, extent);
    }
    elements *= extent;  // below 2^63 each, so 128 bits hold one more factor
    if (elements > kMaxFilePosition) {
      return Refuse("gguf_shape", "tensor {} has more than 2^63 elements", name);
    }
    info->shape.ne[i] = static_cast<int64_t>(extent);
  }
  return OkStatus();
}

Status Parser::ParseSize(const std::string& name, TensorInfo* info) {
  const tensor::DTypeInfo* type = tensor::FindTypeInfo(info->type_id);
  if (type == nullptr || type->block_bytes == 0) {
    return Refuse("gguf_unsupported_type", "tensor {} has {}", name,
                  type == nullptr ? fmt::format("the unknown type {}", info->type_id)
                                  : fmt::format("the removed type {}", type->name));
  }
  if (!type->readable && unreadable_.ok()) {
    unreadable_ = Refuse("gguf_unsupported_type",
                         "tensor {} has type {}, which is not read; a file of another type works, "
                         "such as Q8_0 or Q4_K_M",
                         name, type->name);
  }
  if (info->shape.columns() % type->block_elements != 0) {
    return Refuse("gguf_unsupported_type",
                  "rows of tensor {} have {} elements, not a multiple of {}'s block of {}", name,
                  info->shape.columns(), type->name, type->block_elements);
  }
  const Wide blocks =
      static_cast<Wide>(info->shape.elements()) / static_cast<Wide>(type->block_elements);
  const Wide bytes = blocks * static_cast<Wide>(type->block_bytes);
  if (AlignUp(bytes, header_.alignment_) > kMaxFilePosition) {
    return Refuse("gguf_overflow", "tensor {} would have more than 2^63 bytes", name);
  }
  info->bytes = static_cast<uint64_t>(bytes);
  quantized_ = quantized_ || type->block_elements > 1;
  return OkStatus();
}

Status Parser::IndexNames() {
  Seal();
  const TensorInfo* const twin = header_.names_.Build(header_.tensors_);
  if (twin != nullptr)
    return Refuse("gguf_tensor_duplicate", "tensor {} appears twice", Quote(twin->name));
  if (!quantized_) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t version,
                   GetUintOr(header_, "general.quantization_version", kQuantizationVersion));
  if (version != kQuantizationVersion) {
    return Refuse("gguf_version", "quantization version {}; version {} is read", version,
                  kQuantizationVersion);
  }
  return OkStatus();
}

Status Parser::CheckLayout() {
  const uint64_t alignment = header_.alignment_;
  const uint64_t data = static_cast<uint64_t>(AlignUp(at_, alignment));
  header_.data_offset_ = data;
  auto& tensors = header_.tensors_;
  std::vector<uint32_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return tensors[a].file_offset < tensors[b].file_offset;
  });
  uint64_t expected = 0;  // where the next tensor must begin, relative to the data area
  for (uint32_t index : order) {
    TensorInfo& info = tensors[index];
    const std::string name = Quote(info.name);
    const uint64_t offset = info.file_offset;
    const Wide end = static_cast<Wide>(data) + offset + info.bytes;
    if (AlignUp(end, alignment) > kMaxFilePosition) {
      return Refuse("gguf_overflow", "tensor {} would end beyond byte 2^63", name);
    }
    if (offset % alignment != 0) {
      return Refuse("gguf_tensor_extent", "tensor {} begins at offset {}, not a multiple of {}",
                    name, offset, alignment);
    }
    if (offset != expected) {
      return Refuse("gguf_tensor_extent",
                    "tensor {} begins at offset {}, {} byte {} that the tensors before it end at",
                    name, offset, offset < expected ? "before" : "after", expected);
    }
    if (end > header_.file_bytes()) {
      return Refuse("gguf_tensor_extent",
                    "tensor {} ends at byte {}, the file at {}: an interrupted download?", name,
                    static_cast<uint64_t>(end), header_.file_bytes());
    }
    info.file_offset = data + offset;
    expected = static_cast<uint64_t>(AlignUp(offset + info.bytes, alignment));
  }
  if (!tensors.empty() && header_.file_bytes() > data + expected)
    header_.unread_bytes_ = header_.file_bytes() - (data + expected);
  return OkStatus();
}

}  // namespace tutti::gguf
