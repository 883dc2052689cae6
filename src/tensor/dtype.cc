#include "tensor/dtype.h"

#include <iterator>
#include <utility>

#include "base/ascii.h"
#include "base/check.h"

namespace tutti::tensor {
namespace {

constexpr bool kReadable = true;
constexpr bool kRefused = false;

constexpr DTypeInfo kTypes[] = {
    /*  0 */ {"F32", 1, 4, kReadable},
    /*  1 */ {"F16", 1, 2, kReadable},
    /*  2 */ {"Q4_0", 32, 18, kReadable},
    /*  3 */ {"Q4_1", 32, 20, kReadable},
    /*  4 */ {"Q4_2", 0, 0, kRefused},
    /*  5 */ {"Q4_3", 0, 0, kRefused},
    /*  6 */ {"Q5_0", 32, 22, kReadable},
    /*  7 */ {"Q5_1", 32, 24, kReadable},
    /*  8 */ {"Q8_0", 32, 34, kReadable},
    /*  9 */ {"Q8_1", 32, 36, kRefused},
    /* 10 */ {"Q2_K", 256, 84, kReadable},
    /* 11 */ {"Q3_K", 256, 110, kReadable},
    /* 12 */ {"Q4_K", 256, 144, kReadable},
    /* 13 */ {"Q5_K", 256, 176, kReadable},
    /* 14 */ {"Q6_K", 256, 210, kReadable},
    /* 15 */ {"Q8_K", 256, 292, kRefused},
    /* 16 */ {"IQ2_XXS", 256, 66, kReadable},
    /* 17 */ {"IQ2_XS", 256, 74, kReadable},
    /* 18 */ {"IQ3_XXS", 256, 98, kReadable},
    /* 19 */ {"IQ1_S", 256, 50, kReadable},
    /* 20 */ {"IQ4_NL", 32, 18, kReadable},
    /* 21 */ {"IQ3_S", 256, 110, kReadable},
    /* 22 */ {"IQ2_S", 256, 82, kReadable},
    /* 23 */ {"IQ4_XS", 256, 136, kReadable},
    /* 24 */ {"I8", 1, 1, kRefused},
    /* 25 */ {"I16", 1, 2, kRefused},
    /* 26 */ {"I32", 1, 4, kRefused},
    /* 27 */ {"I64", 1, 8, kRefused},
    /* 28 */ {"F64", 1, 8, kRefused},
    /* 29 */ {"IQ1_M", 256, 56, kReadable},
    /* 30 */ {"BF16", 1, 2, kReadable},
    /* 31 */ {"Q4_0_4_4", 0, 0, kRefused},
    /* 32 */ {"Q4_0_4_8", 0, 0, kRefused},
    /* 33 */ {"Q4_0_8_8", 0, 0, kRefused},
    /* 34 */ {"TQ1_0", 256, 54, kReadable},
    /* 35 */ {"TQ2_0", 256, 66, kReadable},
    /* 36 */ {"IQ4_NL_4_4", 0, 0, kRefused},
    /* 37 */ {"IQ4_NL_4_8", 0, 0, kRefused},
    /* 38 */ {"IQ4_NL_8_8", 0, 0, kRefused},
    /* 39 */ {"MXFP4", 32, 17, kReadable},
    /* 40 */ {"NVFP4", 64, 36, kRefused},
    /* 41 */ {"Q1_0", 128, 18, kRefused},
};

}  // namespace

const DTypeInfo* FindTypeInfo(uint32_t id) {
  return id < std::size(kTypes) ? &kTypes[id] : nullptr;
}

std::optional<DType> ReadableType(uint32_t id) {
  const DTypeInfo* info = FindTypeInfo(id);
  if (info == nullptr || !info->readable) return std::nullopt;
  return static_cast<DType>(id);
}

const DTypeInfo& Info(DType dtype) {
  const DTypeInfo* info = FindTypeInfo(static_cast<uint32_t>(dtype));
  CHECK(info != nullptr && info->readable) << "type id " << static_cast<uint32_t>(dtype);
  return *info;
}

std::string_view Name(DType dtype) { return Info(dtype).name; }

bool IsQuantized(DType dtype) { return Info(dtype).block_elements > 1; }

size_t RowBytes(DType dtype, int64_t n) {
  const DTypeInfo& info = Info(dtype);
  CHECK(n >= 0 && n % info.block_elements == 0) << info.name << " row of " << n << " elements";
  return static_cast<size_t>(n / info.block_elements) * static_cast<size_t>(info.block_bytes);
}

std::string CommonSpelling(std::string_view name) {
  std::string lower = AsciiLower(name);
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {
      {"fp16", "f16"},    {"fp32", "f32"},      {"float16", "f16"},
      {"float32", "f32"}, {"bfloat16", "bf16"},
  };
  for (const auto& [spelling, common] : kSame) {
    if (lower == spelling) return std::string(common);
  }
  return lower;
}

std::string Shape::ToString() const {
  std::string text = "{";
  for (int i = 0; i < dims; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ne[static_cast<size_t>(i)]);
  }
  return text + "}";
}

}  // namespace tutti::tensor
