#include "base/go_duration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tutti {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(GoDuration, ReadsNumbersWithUnits) {
  EXPECT_EQ(ParseGoDuration("5m"), Duration(minutes(5)));
  EXPECT_EQ(ParseGoDuration("1h30m"), Duration(minutes(90)));
  EXPECT_EQ(ParseGoDuration("1.5s"), Duration(milliseconds(1500)));
  EXPECT_EQ(ParseGoDuration("300ms"), Duration(milliseconds(300)));
  EXPECT_EQ(ParseGoDuration("2\xC2\xB5s"), Duration(2000));
  EXPECT_EQ(ParseGoDuration("-1s"), Duration(-seconds(1)));
  EXPECT_EQ(ParseGoDuration("+24h"), Duration(hours(24)));
  EXPECT_EQ(ParseGoDuration("0"), Duration::zero());
  EXPECT_EQ(ParseGoDuration("-0"), Duration::zero());
}

TEST(GoDuration, CapsWhatOverflows) {
  EXPECT_EQ(ParseGoDuration("999999999h"), Duration::max());
  EXPECT_EQ(ParseGoDuration("-999999999h"), -Duration::max());
  EXPECT_EQ(ParseGoDuration(std::string(400, '9') + "h"), Duration::max());
}

TEST(GoDuration, RefusesOtherTexts) {
  for (const char* text : {"", "-", "5", "5 m", "m", "5x", "1.2.3s", ".s", "5m3", "--1s", "1e3s"})
    EXPECT_FALSE(ParseGoDuration(text).has_value()) << text;
}

}  // namespace
}  // namespace tutti
