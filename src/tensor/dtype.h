// The element types a weight file can name, how each packs numbers into blocks, and the shape of a
// tensor of them.
//
// Values of DType are the type ids of GGUF (ggml_type in its specification): a file's id needs no
// table of its own. Every id ever assigned has a name here. The types that Tutti computes with have
// `readable` set; the others exist so that an error message can name them. Plain data; any thread.
// Source: the GGUF specification and ggml's type traits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "base/check.h"

namespace tutti::tensor {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

// The types that are read and written, in the order in which tables of tests and reports show them.
inline constexpr DType kReadableTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
// Types that are read block by block, and but for MXFP4 computed with as another type
// (tensor/transcoded.h). Of these only MXFP4 has an encoder.
inline constexpr DType kTranscodedTypes[] = {
    DType::kQ2_K,   DType::kQ3_K,  DType::kIQ1_S,   DType::kIQ1_M, DType::kIQ2_XXS,
    DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_NL,
    DType::kIQ4_XS, DType::kTQ1_0, DType::kTQ2_0,   DType::kMXFP4};

struct DTypeInfo {
  std::string_view name;   // as the field writes it: "Q4_K"
  int32_t block_elements;  // consecutive elements of a row that share a block; 0: removed from the
                           // format
  int32_t block_bytes;     // bytes of one block; 0: removed from the format
  bool readable;           // DequantizeRow and packing take it
};

// Looks up any id a file may hold; nullptr for ids that were never assigned.
const DTypeInfo* FindTypeInfo(uint32_t id);

// The DType of a file's id, or nothing when the id is unknown or not readable.
std::optional<DType> ReadableType(uint32_t id);

// Traits of a readable type, transcoded or not.
const DTypeInfo& Info(DType dtype);
std::string_view Name(DType dtype);

// True when a block stores scales along with its quants (everything but F32, F16 and BF16).
bool IsQuantized(DType dtype);

// Bytes of a row of n elements. n must be a non-negative multiple of the block (CHECKed: callers
// validate).
size_t RowBytes(DType dtype, int64_t n);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

// Normalises the spellings of a number type; all commands compare the type names in their options
// in this form, so that all accept the same. Returns the name in lower case, with "f16" for fp16
// and float16, "f32" for fp32 and float32, and "bf16" for bfloat16. Text that names no type is only
// lower-cased. ASCII; never fails.
std::string CommonSpelling(std::string_view name);

inline constexpr int kMaxDims = 4;

// Dimensions are in the order of GGUF: ne[0] is the contiguous one (a row), so a weight matrix
// [out, in] has ne = {in, out}.
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

// A tensor's type, extent and bytes, owned by someone else; the bytes must outlive the view.
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
