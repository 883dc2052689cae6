// The element types a weight file can name, and how each packs numbers into blocks.
//
// Values of DType are the type ids of GGUF (ggml_type in its specification): a file's id needs no
// table of its own. Every id ever assigned has a name here. The types that Tutti computes with have
// `readable` set; the others exist so that an error message can name them. Plain data; any thread.
// Source: the GGUF specification and ggml's type traits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

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
// Types that are only read, and computed with as another type (tensor/transcoded.h).
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
std::optional<DType> TypeByName(std::string_view name);  // of kReadableTypes; exact spelling

// True when a block stores scales along with its quants (everything but F32, F16 and BF16).
bool IsQuantized(DType dtype);

// Bytes of a row of n elements. n must be a non-negative multiple of the block (CHECKed: callers
// validate).
size_t RowBytes(DType dtype, int64_t n);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

}  // namespace tutti::tensor
