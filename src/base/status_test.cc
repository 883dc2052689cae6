#include "base/status.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("invalid_value", "odd").WithParam("x");
  return x / 2;
}

Result<int> Quarter(int x) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

TEST(Status, AResultHoldsAValueOrTheReasonItIsMissing) {
  EXPECT_EQ(Quarter(8).value(), 2);
  const Status status = Quarter(6).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT [invalid_value] x: odd");
}

TEST(Status, ContextKeepsTheMachineCode) {
  const Status status = NotFound("model_not_found", "no such file").WithContext("m.gguf");
  EXPECT_EQ(status.message(), "m.gguf: no such file");
  EXPECT_EQ(status.reason(), "model_not_found");
}

TEST(Status, WhatWasTooMuchKeepsItsNumbersThroughParamAndContext) {
  const Status status = InvalidArgument("context_length_exceeded", "900 tokens")
                            .WithExcess(900, 512)
                            .WithParam("input")
                            .WithContext("m");
  EXPECT_EQ(status.excess(), (Status::Excess{900, 512}));
  EXPECT_FALSE(Quarter(6).status().excess().has_value());
}

TEST(StatusDeathTest, TakingAValueThatIsNotThereIsABug) {
  EXPECT_DEATH((void)Half(1).value(), "odd");
}

}  // namespace
}  // namespace tutti
