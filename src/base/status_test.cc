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

TEST(Status, ACopyIsItsOwnAndAMovedStatusIsOk) {
  Status first = NotFound("model_not_found", "no such file");
  const Status copy = first;
  EXPECT_EQ(copy, first);
  const Status moved = std::move(first).WithContext("m.gguf");
  EXPECT_TRUE(first.ok());  // NOLINT: what is left is defined
  EXPECT_EQ(moved.message(), "m.gguf: no such file");
  EXPECT_EQ(copy.message(), "no such file");
  EXPECT_NE(copy, moved);
  EXPECT_TRUE(OkStatus().WithParam("x").ok());
}

TEST(Status, OutOfMemoryAllocatesNothingUntilItIsChanged) {
  (void)OutOfMemory();
  EXPECT_EQ(&OutOfMemory().message(), &OutOfMemory().message()) << "one error for all";
  const Status changed = OutOfMemory().WithParam("x");
  EXPECT_EQ(changed.param(), "x");
  EXPECT_EQ(OutOfMemory().param(), "");
  EXPECT_EQ(OutOfMemory(), Unavailable("overloaded", "out of memory"));
}

// Counts its objects, as a value that is destroyed twice or never is seen by nothing else.
struct Counted {
  explicit Counted(int* count) : alive(count) { ++*alive; }
  Counted(const Counted& other) : alive(other.alive) { ++*alive; }
  ~Counted() { --*alive; }
  int* alive;
};

TEST(Status, AResultDestroysItsValueOnceHoweverItIsAssigned) {
  int alive = 0;
  {
    Result<Counted> value = Counted(&alive);
    Result<Counted> error = InvalidArgument("invalid_value", "odd");
    Result<Counted> copy = value;
    EXPECT_EQ(alive, 2);
    copy = error;
    EXPECT_FALSE(copy.ok());
    EXPECT_EQ(alive, 1);
    copy = value;
    error = std::move(copy);
    EXPECT_TRUE(error.ok());
    EXPECT_TRUE(error.status().ok());
    value = Result<Counted>(InvalidArgument("invalid_value", "even"));
    EXPECT_EQ(value.status().message(), "even");
    value = *&value;
    EXPECT_EQ(value.status().message(), "even");
  }
  EXPECT_EQ(alive, 0);
}

TEST(StatusDeathTest, TakingAValueThatIsNotThereIsABug) {
  EXPECT_DEATH((void)Half(1).value(), "odd");
}

}  // namespace
}  // namespace tutti
