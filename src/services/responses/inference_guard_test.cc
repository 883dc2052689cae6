#include "services/responses/inference_guard.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti::responses {
namespace {

TEST(InferenceGuardTest, InferenceMayBeginOutsideOfSections) {
  HoldTimes times;
  { const CriticalSection section(&times); }
  CheckNoSection();
  EXPECT_EQ(times.count(), 1u);
}

TEST(InferenceGuardDeathTest, InferenceWithADialogsDataHeldEndsTheProcess) {
  EXPECT_DEATH(
      {
        const CriticalSection outer(nullptr);
        { const CriticalSection inner(nullptr); }
        CheckNoSection();
      },
      "inference begins with a dialog's data held");
}

TEST(InferenceGuardTest, ASectionIsItsThreadsOwn) {
  const CriticalSection section(nullptr);
  std::thread([] { CheckNoSection(); }).join();
}

TEST(InferenceGuardTest, QuantilesAreWithinAFactorOfTwo) {
  HoldTimes times;
  for (int i = 0; i < 99; ++i) times.Add(std::chrono::microseconds(3));
  times.Add(std::chrono::milliseconds(20));
  EXPECT_GE(times.Quantile(0.5), std::chrono::microseconds(3));
  EXPECT_LE(times.Quantile(0.5), std::chrono::microseconds(6));
  EXPECT_GE(times.Quantile(1), std::chrono::milliseconds(20));
  EXPECT_EQ(times.most(), std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace tutti::responses
