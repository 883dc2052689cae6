// KvDtype: the number type of keys and values in the KV cache (`--kv-dtype`).
//
// Plain values and pure functions; any thread.
#pragma once

#include <string_view>

#include "kernels/kernels.h"
#include "model/weights.h"

namespace tutti::model {

enum class KvDtype {
  kByWeights,  // kInt8; k16Bit for a model served in 16 bits, kF32 for float32
  k16Bit,      // of the table's own kind
  kInt8,       // with a float scale per token and head: half of 16 bits
  kF32,
};

inline kernels::KvFormat KvFormatOf(KvDtype dtype, WeightMode mode,
                                    const kernels::KernelTable& kernels) {
  switch (dtype) {
    case KvDtype::kInt8:
      return kernels::KvFormat::kI8;
    case KvDtype::kF32:
      return kernels::KvFormat::kF32;
    case KvDtype::k16Bit:
      return kernels.attention.native16;
    case KvDtype::kByWeights:
      break;
  }
  if (mode == WeightMode::kF32) return kernels::KvFormat::kF32;
  return mode == WeightMode::kInt8 ? kernels::KvFormat::kI8 : kernels.attention.native16;
}

// The name in the option; fp16 stands for 16 bits of any kind.
inline std::string_view KvFormatName(kernels::KvFormat format) {
  return format == kernels::KvFormat::kF32  ? "fp32"
         : format == kernels::KvFormat::kI8 ? "int8"
                                            : "fp16";
}

}  // namespace tutti::model
