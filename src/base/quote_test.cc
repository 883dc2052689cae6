#include "base/quote.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Quote("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(Quote("\x1b[2J\xff\xc2\x9b\n\"q\"\\"), R"("\x1b[2J\xff\xc2\x9b\n\"q\"\\")");
  EXPECT_EQ(Quote(std::string_view("\0x", 2)), R"("\x00x")");
}

TEST(Quote, ALineOfTextKeepsItsQuotes) {
  EXPECT_EQ(Printable("a \"b\" \\ caf\xc3\xa9\x1b[2J\n"), "a \"b\" \\ caf\xc3\xa9\\x1b[2J\\n");
}

TEST(Quote, CutsLongTextAndSaysSo) {
  EXPECT_EQ(Quote(std::string(64, 'a')), "\"" + std::string(64, 'a') + "\"");
  EXPECT_EQ(Quote(std::string(65, 'a')), "\"" + std::string(64, 'a') + "\"...");
  EXPECT_EQ(Quote("abc", 2), "\"ab\"...");
  EXPECT_EQ(Quote("a\xc3\xa9", 2), "\"a\\xc3\"...") << "a cut character is no character";
}

}  // namespace
}  // namespace tutti
