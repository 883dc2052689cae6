#include <gtest/gtest.h>

#include "cli/pull.h"

namespace tutti::cli {
namespace {

TEST(PullTextTest, SizesAreInPowersOfAThousand) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1.0 kB");
  EXPECT_EQ(BytesText(98'240'000), "98.2 MB");
  EXPECT_EQ(BytesText(999'999), "1.0 MB");
  EXPECT_EQ(BytesText(4'000'000'000), "4.0 GB");
  EXPECT_EQ(BytesText(uint64_t{1} << 60), "1152921.5 TB");
}

TEST(PullTextTest, TimesHaveTwoUnits) {
  EXPECT_EQ(TimeText(std::chrono::seconds(0)), "0 s");
  EXPECT_EQ(TimeText(std::chrono::seconds(130)), "2 min 10 s");
  EXPECT_EQ(TimeText(std::chrono::seconds(3900)), "1 h 5 min");
}

TEST(PullTextTest, ProgressSaysHowMuchAndHowLong) {
  EXPECT_EQ(ProgressText(3, 5, 1'200'000'000, 4'000'000'000, 50e6),
            "3 of 5 files, 1.2 GB of 4.0 GB (30 %), 50.0 MB/s, 56 s left");
  EXPECT_EQ(ProgressText(0, 1, 999'999'999, 1'000'000'000, 0), "1.0 GB of 1.0 GB (99 %)");
  EXPECT_EQ(ProgressText(0, 1, 5, 0, 10), "5 B, 10 B/s") << "the length is not known yet";
  EXPECT_EQ(ProgressText(0, 2, 7, 5, 1), "0 of 2 files, 5 B of 5 B (100 %), 1 B/s, 0 s left");
}

}  // namespace
}  // namespace tutti::cli
