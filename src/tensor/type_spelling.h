// The ways in which people write one type of numbers: FP16, float16 and f16.
//
// Options of all commands compare names of types by it, so that what one takes every other does.
#pragma once

#include <string>
#include <string_view>

namespace tutti::tensor {

// In lower case, and "f16", "f32", "bf16" for what is also written fp16 or float16, fp32 or
// float32, bfloat16. Any text: what names no type is only lowered. ASCII; never fails.
std::string CommonSpelling(std::string_view name);

}  // namespace tutti::tensor
