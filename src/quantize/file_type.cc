#include "quantize/requantize.h"

namespace tutti::quantize {
namespace {

using tensor::DType;

constexpr FileType kFileTypes[] = {
    {"F32", 0, DType::kF32, false, "32 bits: every number as it is"},
    {"BF16", 32, DType::kBF16, false, "16 bits, the range of float32"},
    {"F16", 1, DType::kF16, false, "16 bits"},
    {"Q8_0", 7, DType::kQ8_0, false, "8.5 bits: hardly to be told from floats"},
    {"Q6_K", 18, DType::kQ6_K, false, "6.6 bits"},
    {"Q5_K_M", 17, DType::kQ5_K, true, "5.5 bits, some 6.6"},
    {"Q5_1", 9, DType::kQ5_1, false, "6 bits, with a minimum"},
    {"Q5_0", 8, DType::kQ5_0, false, "5.5 bits"},
    {"Q4_K_M", 15, DType::kQ4_K, true, "4.5 bits, some 6.6: the usual choice of 4 bits"},
    {"Q4_1", 3, DType::kQ4_1, false, "5 bits, with a minimum"},
    {"Q4_0", 2, DType::kQ4_0, false, "4.5 bits: the smallest"},
};

}  // namespace

std::span<const FileType> FileTypes() { return kFileTypes; }

std::optional<FileType> FileTypeByName(std::string_view name) {
  for (const FileType& type : kFileTypes) {
    if (tensor::CommonSpelling(name) == tensor::CommonSpelling(type.name)) return type;
  }
  return std::nullopt;
}

std::string FileTypeNames() {
  std::string names;
  for (const FileType& type : kFileTypes) {
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace tutti::quantize
