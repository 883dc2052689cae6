#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/random.h"
#include "services/limits/rate.h"

namespace tutti::limits {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

TEST(Gcra, GivesItsBurstAtOnceAndThenAtItsRate) {
  const Rate rate = PerMinute(60);
  Gcra bucket;
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(bucket.Take(rate, 1, kStart)) << i;
  EXPECT_FALSE(bucket.Take(rate, 1, kStart));
  EXPECT_EQ(bucket.RetryAfter(rate, 1, kStart), seconds(1));
  EXPECT_FALSE(bucket.Take(rate, 1, kStart + seconds(1) - nanoseconds(1)));
  EXPECT_TRUE(bucket.Take(rate, 1, kStart + seconds(1)));
  EXPECT_FALSE(bucket.Take(rate, 1, kStart + seconds(1)));
}

TEST(Gcra, EmptiedPieceByPieceItIsAsEmptyAsAtOnceWhateverTheLimit) {
  for (const int64_t limit : {1, 3, 7, 99, 1013, 100'003}) {
    const Rate rate = PerMinute(limit);
    Gcra bucket;
    for (int64_t i = 0; i < limit; ++i) {
      ASSERT_EQ(bucket.Remaining(rate, kStart), limit - i);
      ASSERT_TRUE(bucket.Take(rate, 1, kStart)) << i << " of " << limit;
    }
    EXPECT_FALSE(bucket.Take(rate, 1, kStart)) << limit;
    EXPECT_EQ(bucket.UntilFull(rate, kStart), minutes(1));
  }
}

TEST(Gcra, TheWaitItTellsIsTheWaitThereIs) {
  Random random(1);
  for (int round = 0; round < 1000; ++round) {
    const Rate rate = PerMinute(random.Between(1, 1'000'000));
    Gcra bucket;
    TimePoint now = kStart;
    for (int i = 0; i < 20; ++i) {
      const int64_t units = random.Between(1, rate.burst);
      const Duration wait = bucket.RetryAfter(rate, units, now);
      if (wait > Duration(0)) {
        ASSERT_FALSE(bucket.Take(rate, units, now + wait - nanoseconds(1)));
        now += wait;
      }
      ASSERT_TRUE(bucket.Take(rate, units, now));
    }
  }
}

TEST(Gcra, WhatCanNeverPassIsToldSo) {
  const Gcra bucket;
  EXPECT_EQ(bucket.RetryAfter(PerMinute(10), 11, kStart), Duration::max());
  EXPECT_EQ(bucket.RetryAfter(PerMinute(10), 10, kStart), Duration(0));
}

TEST(Gcra, WhatWasNotUsedComesBackAndWhatWasUsedBeyondIsADebt) {
  const Rate rate = PerMinute(1000);
  Gcra bucket;
  ASSERT_TRUE(bucket.Take(rate, 1000, kStart));
  bucket.Settle(rate, 1000, 400, kStart, kStart);
  EXPECT_EQ(bucket.Remaining(rate, kStart), 600);
  bucket.Charge(rate, 900, kStart);
  EXPECT_EQ(bucket.Remaining(rate, kStart), 0) << "never negative";
  EXPECT_EQ(bucket.RetryAfter(rate, 0, kStart), seconds(18)) << "a debt of 300";
  EXPECT_EQ(bucket.RetryAfter(rate, 1, kStart), milliseconds(18'060));
}

TEST(Gcra, WhatComesBackNeverMakesItFullerThanFull) {
  const Rate rate = PerMinute(1000);
  Gcra bucket;
  ASSERT_TRUE(bucket.Take(rate, 1000, kStart));
  const TimePoint later = kStart + seconds(59);
  bucket.Settle(rate, 1000, 0, kStart, later);
  EXPECT_TRUE(bucket.AtRest(rate, later));
  EXPECT_EQ(bucket.Remaining(rate, later), 1000);
}

TEST(Gcra, WhatCameBackByItselfIsNotGivenBackAgain) {
  const Rate rate = PerMinute(1000);
  Gcra bucket;
  ASSERT_TRUE(bucket.Take(rate, 1000, kStart));
  const TimePoint later = kStart + minutes(1);  // full again
  ASSERT_TRUE(bucket.Take(rate, 1000, later));
  bucket.Settle(rate, 1000, 0, kStart, later);
  EXPECT_EQ(bucket.Remaining(rate, later), 0);
}

// For any sequence of takes and returns: from a moment at which the bucket was full, the units that
// stay taken are within the burst plus the refill since.
TEST(Gcra, FromAnyMomentItWasFullWhatStaysTakenIsWithinItsPromise) {
  struct Piece {
    TimePoint at;
    int64_t reserved, used;
    bool settled;
  };
  Random random(7);
  int settled = 0;
  for (int round = 0; round < 300; ++round) {
    const Rate rate = PerMinute(random.Between(10, 5000));
    Gcra bucket;
    std::vector<Piece> pieces;
    TimePoint now = kStart, full_at = kStart;
    size_t first = 0;  // of the pieces since it was full
    for (int i = 0; i < 400; ++i) {
      now += milliseconds(random.Between(0, 4000));
      if (bucket.AtRest(rate, now)) {
        full_at = now;
        first = pieces.size();
      }
      if (random.Chance(0.5) || pieces.empty()) {
        const int64_t units = random.Between(1, rate.burst);
        if (bucket.Take(rate, units, now)) pieces.push_back({now, units, units, false});
      } else {
        Piece& piece = pieces[random.Below(pieces.size())];
        if (!piece.settled) {
          piece.settled = true;
          piece.used = random.Between(0, piece.reserved);
          bucket.Settle(rate, piece.reserved, piece.used, piece.at, now);
          ++settled;
        }
      }
      int64_t taken = 0;
      for (size_t p = first; p < pieces.size(); ++p) taken += pieces[p].used;
      const double promise = static_cast<double>(rate.burst) +
                             static_cast<double>(rate.limit) * ToSeconds(now - full_at) / 60;
      ASSERT_LE(static_cast<double>(taken), promise + 1e-6) << "round " << round << ", " << i;
    }
  }
  EXPECT_GT(settled, 10'000);
}

TEST(Gcra, AtAnotherLimitWhatIsMissingStaysMissing) {
  Gcra bucket;
  ASSERT_TRUE(bucket.Take(PerMinute(1000), 700, kStart));
  bucket.Change(PerMinute(1000), PerMinute(800), kStart);
  EXPECT_EQ(bucket.Remaining(PerMinute(800), kStart), 100);
  bucket.Change(PerMinute(800), PerMinute(500), kStart);
  EXPECT_EQ(bucket.Remaining(PerMinute(500), kStart), 0);
  EXPECT_EQ(bucket.UntilFull(PerMinute(500), kStart), seconds(84));
}

TEST(Gcra, TheLargestNumbersStayInRange) {
  const Rate rate = {kMaxUnits, hours(24), kMaxUnits};
  const TimePoint late{Duration::max() - hours(48)};
  Gcra bucket;
  EXPECT_TRUE(bucket.Take(rate, kMaxUnits, late));
  for (int i = 0; i < 100; ++i) bucket.Charge(rate, INT64_MAX, late);
  EXPECT_EQ(bucket.Remaining(rate, late), 0);
  EXPECT_EQ(bucket.UntilFull(rate, late), hours(24));
  EXPECT_EQ(bucket.RetryAfter(rate, kMaxUnits, late), hours(24));
  bucket.Settle(rate, kMaxUnits, -1, late, late);
  EXPECT_EQ(bucket.Remaining(rate, late), kMaxUnits);
}

}  // namespace
}  // namespace tutti::limits
