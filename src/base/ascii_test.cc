#include "base/ascii.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(AsciiTest, OnlyLettersOfAsciiHaveCapitals) {
  EXPECT_EQ(AsciiLower("Az@[`{ \xc3\x84"), "az@[`{ \xc3\x84");
  EXPECT_TRUE(SameLetters("GZip", "gzip"));
  EXPECT_TRUE(SameLetters("", ""));
  EXPECT_FALSE(SameLetters("gzi", "gzip"));
  EXPECT_FALSE(SameLetters("gzip0", "gzip"));
  EXPECT_FALSE(SameLetters("gz\x49p", "gzap"));
}

TEST(AsciiTest, HexDigitsHaveTheirValue) {
  for (int value = 0; value < 16; ++value) {
    EXPECT_EQ(HexDigit("0123456789abcdef"[value]), value);
    EXPECT_EQ(HexDigit("0123456789ABCDEF"[value]), value);
  }
  for (const char c : {'/', ':', '@', 'G', '`', 'g', '\xc3', '\0'}) EXPECT_EQ(HexDigit(c), -1);
}

}  // namespace
}  // namespace tutti
