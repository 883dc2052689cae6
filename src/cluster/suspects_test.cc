#include <gtest/gtest.h>

#include "cluster/placement.h"

namespace tutti::cluster {
namespace {

using Standing = Suspects::Standing;

Fingerprint FingerprintOf(size_t n) {
  Fingerprint fingerprint{};
  for (size_t i = 0; i < sizeof n; ++i) fingerprint[i] = static_cast<uint8_t>(n >> (8 * i));
  return fingerprint;
}

TEST(Suspects, WhoWasThereWhenAWorkerDiedIsTriedAndNobodyElse) {
  Suspects suspects;
  const TimePoint now{};
  EXPECT_EQ(suspects.Died(FingerprintOf(1), false, now), Standing::kSuspect);
  EXPECT_EQ(suspects.Of(FingerprintOf(1), now), Standing::kSuspect);
  EXPECT_EQ(suspects.Of(FingerprintOf(2), now), Standing::kClear);
  // A second death during the trial of another request changes nothing.
  EXPECT_EQ(suspects.Died(FingerprintOf(1), false, now), Standing::kSuspect);
  suspects.Answered(FingerprintOf(1));
  EXPECT_EQ(suspects.Of(FingerprintOf(1), now), Standing::kClear);
  EXPECT_EQ(suspects.size(), 0u);
}

TEST(Suspects, WhatKillsOnItsTrialIsQuarantinedForAnHour) {
  Suspects suspects;
  const TimePoint now{};
  EXPECT_EQ(suspects.Died(FingerprintOf(1), true, now), Standing::kQuarantined);
  suspects.Answered(FingerprintOf(1));
  EXPECT_EQ(suspects.Of(FingerprintOf(1), now + Suspects::kQuarantine - Duration(1)),
            Standing::kQuarantined);
  EXPECT_EQ(suspects.Of(FingerprintOf(1), now + Suspects::kQuarantine), Standing::kClear);
  EXPECT_EQ(suspects.size(), 0u);
}

TEST(Suspects, SuspicionPasses) {
  Suspects suspects;
  const TimePoint now{};
  (void)suspects.Died(FingerprintOf(1), false, now);
  EXPECT_EQ(suspects.Of(FingerprintOf(1), now + Suspects::kRemembered), Standing::kClear);
}

TEST(Suspects, AreBoundedAndTheOldestGoFirst) {
  Suspects suspects;
  const TimePoint now{};
  for (size_t i = 0; i < Suspects::kMost + 10; ++i)
    (void)suspects.Died(FingerprintOf(i), false, now);
  EXPECT_EQ(suspects.size(), Suspects::kMost);
  EXPECT_EQ(suspects.Of(FingerprintOf(9), now), Standing::kClear);
  EXPECT_EQ(suspects.Of(FingerprintOf(10), now), Standing::kSuspect);
}

}  // namespace
}  // namespace tutti::cluster
