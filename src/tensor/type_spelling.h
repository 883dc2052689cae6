// Normalises the spellings of a number type: FP16, float16 and f16.
//
// All commands compare the type names in their options in this form, so that all accept the same.
#pragma once

#include <string>
#include <string_view>

namespace tutti::tensor {

// Returns the name in lower case, with "f16" for fp16 and float16, "f32" for fp32 and float32, and
// "bf16" for bfloat16. Text that names no type is only lower-cased. ASCII; never fails.
std::string CommonSpelling(std::string_view name);

}  // namespace tutti::tensor
