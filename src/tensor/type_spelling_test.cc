#include <gtest/gtest.h>

#include "tensor/dtype.h"

namespace tutti::tensor {
namespace {

TEST(TypeSpelling, OneTypeHasOneSpellingHoweverItWasWritten) {
  for (const char* name : {"f16", "F16", "fp16", "FP16", "float16"})
    EXPECT_EQ(CommonSpelling(name), "f16") << name;
  for (const char* name : {"f32", "F32", "fp32", "Float32"})
    EXPECT_EQ(CommonSpelling(name), "f32") << name;
  for (const char* name : {"bf16", "BF16", "bfloat16"})
    EXPECT_EQ(CommonSpelling(name), "bf16") << name;
  EXPECT_EQ(CommonSpelling("Q8_0"), "q8_0");
  EXPECT_EQ(CommonSpelling("fp8"), "fp8");
  EXPECT_EQ(CommonSpelling(""), "");
}

}  // namespace
}  // namespace tutti::tensor
