// Shape and TensorView: a tensor's type, extent and bytes, owned by someone else.
//
// Dimensions are in the order of GGUF: ne[0] is the contiguous one (a row), so a weight matrix
// [out, in] has ne = {in, out}. Values; any thread. The bytes must outlive the view.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace tutti::tensor {

inline constexpr int kMaxDims = 4;

struct Shape {
  int dims = 0;                                     // 1..4 for a real tensor
  std::array<int64_t, kMaxDims> ne = {1, 1, 1, 1};  // unused dimensions are 1

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : dims(static_cast<int>(extents.size())) {
    CHECK_LE(extents.size(), static_cast<size_t>(kMaxDims));
    size_t i = 0;
    for (int64_t extent : extents) ne[i++] = extent;
  }

  int64_t columns() const { return ne[0]; }  // elements of a row
  // Cannot overflow: the reader of the file checked the product of all extents.
  int64_t rows() const { return ne[1] * ne[2] * ne[3]; }
  int64_t elements() const { return columns() * rows(); }
  std::string ToString() const;  // "{576, 49152}"
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;  // rows() rows of row_bytes() each, no padding between them

  size_t row_bytes() const { return RowBytes(dtype, shape.columns()); }
  size_t bytes() const { return row_bytes() * static_cast<size_t>(shape.rows()); }
  const std::byte* row(int64_t index) const {
    return data + static_cast<size_t>(index) * row_bytes();
  }
};

}  // namespace tutti::tensor
