#include "safetensors/header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

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
  const auto at =
      std::lower_bound(names_sorted_.begin(), names_sorted_.end(), name,
                       [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (at == names_sorted_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

const std::string* Header::FindMetadata(std::string_view key) const {
  const auto at = std::lower_bound(
      metadata_.begin(), metadata_.end(), key,
      [](const MetadataEntry& entry, std::string_view k) { return entry.key < k; });
  if (at == metadata_.end() || at->key != key) return nullptr;
  return &at->value;
}

}  // namespace tutti::safetensors
