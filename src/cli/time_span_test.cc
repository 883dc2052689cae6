#include <gtest/gtest.h>

#include "cli/store_commands.h"

namespace tutti::cli {
namespace {

TEST(TimeSpan, IsANumberWithItsUnit) {
  EXPECT_EQ(ParseSpan("90s"), 90);
  EXPECT_EQ(ParseSpan("45m"), 2700);
  EXPECT_EQ(ParseSpan("12h"), 43200);
  EXPECT_EQ(ParseSpan("30d"), 2592000);
  EXPECT_EQ(ParseSpan("8w"), 4838400);
  for (const char* bad : {"", "d", "30", "0d", "-1d", "1.5h", "1 d", "30D", "1dd", "1y", "+1d",
                          "99999999999999999999s", "9223372036854775807w", "36501d"})
    EXPECT_FALSE(ParseSpan(bad).has_value()) << bad;
}

TEST(TimeSpan, DatesAreOfUtc) {
  EXPECT_EQ(DateText(0), "1970-01-01 00:00");
  EXPECT_EQ(DateText(1'700'000'000), "2023-11-14 22:13");
}

}  // namespace
}  // namespace tutti::cli
