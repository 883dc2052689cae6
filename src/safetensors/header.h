// Header: the validated metadata and tensor table of a safetensors file.
//
// A header that Parse accepts satisfies every rule of the format: a length within the file and cap,
// strict JSON, unique names, known types, shapes whose products do not overflow and equal the bytes
// they are given, and extents that cover the data without overlap or hole up to the file's last
// byte. Sizes are computed in 128 bits; memory stays below twice the header plus 16 MiB.
//
// Owner: File. Immutable after parsing; any thread.
// Source: the format's description and its reference implementation, version 0.6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "files/refuse.h"
#include "files/source.h"
#include "safetensors/json_stream.h"
#include "tensor/dtype.h"
#include "tensor/name_index.h"

namespace tutti::safetensors {

// The element types a safetensors file can name.
//
// All of the format's names are known, so that a file with any of them can be opened and its layout
// proven; those that are numbers a model computes with (`readable`) can be read as floats. Plain
// data; any thread. Source: the format's reference implementation, enum Dtype.

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

// Caps. The largest known shards have some 10^4 tensors in headers of about 1 MiB.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{32} << 20;
inline constexpr size_t kMaxTensors = 65536;
inline constexpr size_t kMaxNameBytes = 1024;
inline constexpr size_t kMaxMetadataEntries = 4096;
inline constexpr int kMaxRank = 8;
// Integers up to here are the same in every JSON implementation.
inline constexpr uint64_t kMaxJsonInteger = uint64_t{1} << 53;

// The code of a file that ends too early or changes while it is read.
inline constexpr std::string_view kTruncated = "st_offsets";

using files::Refuse;

// Extents in C order: the last one is contiguous, so a weight matrix is [out, in]. Rank 0 is one
// number.
struct Shape {
  int rank = 0;
  std::array<int64_t, kMaxRank> extents = {};

  std::span<const int64_t> dims() const { return {extents.data(), static_cast<size_t>(rank)}; }
  int64_t elements() const;      // 1 for rank 0; does not overflow
  std::string ToString() const;  // "[384, 1536]"
  // As tensor::Shape has it: the contiguous extent first, rank 0 as one element. Nothing above
  // tensor::kMaxDims.
  std::optional<tensor::Shape> ContiguousFirst() const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t file_offset = 0;  // of the first byte, from the start of the file
  uint64_t bytes = 0;
};

struct MetadataEntry {
  std::string key;
  std::string value;
};

class Header {
 public:
  // Parses from the start of `source`. Codes: st_*, and model_path when the device fails. `chunk`
  // as in StreamJson.
  static Result<Header> Parse(const files::Source& source, size_t chunk = kJsonChunk);

  uint64_t data_offset() const { return data_offset_; }  // of the data area

  std::span<const TensorInfo> tensors() const { return tensors_; }  // in the order of their data
  const TensorInfo* FindTensor(std::string_view name) const;        // O(log n); null when absent

  std::span<const MetadataEntry> metadata() const { return metadata_; }  // by key
  // The text of "__metadata__"; nullptr when it has no such key.
  const std::string* FindMetadata(std::string_view key) const;

 private:
  friend class HeaderParser;

  uint64_t data_offset_ = 0;
  std::vector<TensorInfo> tensors_;
  tensor::NameIndex names_;  // of tensors_
  std::vector<MetadataEntry> metadata_;
};

}  // namespace tutti::safetensors
