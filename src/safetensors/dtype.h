// The element types a safetensors file can name.
//
// All of the format's names are known, so that a file with any of them can be opened and its layout
// proven; those that are numbers a model computes with (`readable`) can be read as floats. Plain
// data; any thread. Source: the format's reference implementation, enum Dtype.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::safetensors {

enum class DType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FnUz,
  kF8E5M2FnUz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
inline constexpr int kDTypes = 22;

struct DTypeInfo {
  std::string_view name;  // as the file spells it
  uint32_t bits;          // of one element
  bool integer;           // holds neither NaN nor infinity
  bool readable;          // File::ReadFloats takes it
};

const DTypeInfo& Info(DType dtype);
inline std::string_view Name(DType dtype) { return Info(dtype).name; }

// Looks up the exact spelling; nullptr when no type has this name.
const DType* FindDType(std::string_view name);

}  // namespace tutti::safetensors
