#include "safetensors/header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace tutti::safetensors {

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t extent : dims()) {
    if (extent == 0) return 0;
    product *= extent;
  }
  return product;
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

std::optional<tensor::Shape> Shape::ContiguousFirst() const {
  if (rank > tensor::kMaxDims) return std::nullopt;
  tensor::Shape shape;
  shape.dims = std::max(rank, 1);
  for (int i = 0; i < rank; ++i) {
    shape.ne[static_cast<size_t>(i)] = extents[static_cast<size_t>(rank - 1 - i)];
  }
  return shape;
}

const TensorInfo* Header::FindTensor(std::string_view name) const {
  return names_.Find(tensors_, name);
}

const std::string* Header::FindMetadata(std::string_view key) const {
  const auto at = std::lower_bound(
      metadata_.begin(), metadata_.end(), key,
      [](const MetadataEntry& entry, std::string_view k) { return entry.key < k; });
  if (at == metadata_.end() || at->key != key) return nullptr;
  return &at->value;
}

// --- element types ---

namespace {

constexpr bool kInteger = true;
constexpr bool kReadable = true;

struct Row {
  DType dtype;
  DTypeInfo info;
};

constexpr std::array<Row, kDTypes> kRows = {{
    {DType::kBool, {"BOOL", 8, kInteger, !kReadable}},
    {DType::kF4, {"F4", 4, !kInteger, !kReadable}},
    {DType::kF6E2M3, {"F6_E2M3", 6, !kInteger, !kReadable}},
    {DType::kF6E3M2, {"F6_E3M2", 6, !kInteger, !kReadable}},
    {DType::kU8, {"U8", 8, kInteger, !kReadable}},
    {DType::kI8, {"I8", 8, kInteger, !kReadable}},
    {DType::kF8E5M2, {"F8_E5M2", 8, !kInteger, !kReadable}},
    {DType::kF8E4M3, {"F8_E4M3", 8, !kInteger, !kReadable}},
    {DType::kF8E8M0, {"F8_E8M0", 8, !kInteger, !kReadable}},
    {DType::kF8E4M3FnUz, {"F8_E4M3FNUZ", 8, !kInteger, !kReadable}},
    {DType::kF8E5M2FnUz, {"F8_E5M2FNUZ", 8, !kInteger, !kReadable}},
    {DType::kI16, {"I16", 16, kInteger, !kReadable}},
    {DType::kU16, {"U16", 16, kInteger, !kReadable}},
    {DType::kF16, {"F16", 16, !kInteger, kReadable}},
    {DType::kBF16, {"BF16", 16, !kInteger, kReadable}},
    {DType::kI32, {"I32", 32, kInteger, !kReadable}},
    {DType::kU32, {"U32", 32, kInteger, !kReadable}},
    {DType::kF32, {"F32", 32, !kInteger, kReadable}},
    {DType::kC64, {"C64", 64, !kInteger, !kReadable}},
    {DType::kF64, {"F64", 64, !kInteger, kReadable}},
    {DType::kI64, {"I64", 64, kInteger, !kReadable}},
    {DType::kU64, {"U64", 64, kInteger, !kReadable}},
}};

constexpr bool InOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(InOrder(), "Info() looks rows up by the value of the enum");

}  // namespace

const DTypeInfo& Info(DType dtype) { return kRows[static_cast<size_t>(dtype)].info; }

const DType* FindDType(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.info.name == name) return &row.dtype;
  }
  return nullptr;
}

}  // namespace tutti::safetensors
