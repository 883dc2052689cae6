#include "tensor/type_spelling.h"

#include <utility>

#include "base/ascii.h"

namespace tutti::tensor {

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

}  // namespace tutti::tensor
