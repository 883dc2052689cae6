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

}  // namespace
}  // namespace tutti
