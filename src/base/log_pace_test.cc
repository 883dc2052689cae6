#include <gtest/gtest.h>

#include "base/log.h"

namespace tutti {
namespace {

TEST(LogPace, GivesALineASecondAndTellsHowManyHadNone) {
  LogPace pace;
  const TimePoint start{std::chrono::seconds(100)};
  EXPECT_EQ(pace.Next(start), 0);
  for (int i = 1; i <= 900; ++i)
    EXPECT_EQ(pace.Next(start + std::chrono::milliseconds(i)), std::nullopt);
  EXPECT_EQ(pace.Next(start + std::chrono::seconds(1)), 900);
  EXPECT_EQ(pace.Next(start + std::chrono::seconds(7)), 0);
}

}  // namespace
}  // namespace tutti
