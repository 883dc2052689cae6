#include "base/ascii.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

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

TEST(AsciiTest, ANumberIsAllOfItsText) {
  EXPECT_EQ(ParseNumber<int>("-17"), -17);
  EXPECT_EQ(ParseNumber<uint64_t>("ff", 16), 255u);
  EXPECT_EQ(ParseNumber<double>("0.5"), 0.5);
  for (const char* const text : {"", " 1", "1 ", "+1", "1x", "0x1", "-1", "256"})
    EXPECT_EQ(ParseNumber<uint8_t>(text), std::nullopt) << text;
}

TEST(AsciiTest, BytesBecomeTwoHexDigitsEach) {
  EXPECT_EQ(ToHex(""), "");
  EXPECT_EQ(ToHex(std::string_view("\x00\x7f\xa9\xff", 4)), "007fa9ff");
  EXPECT_EQ(ToHex(std::array<unsigned char, 2>{0x0B, 0xC0}), "0bc0");
}

}  // namespace
}  // namespace tutti
