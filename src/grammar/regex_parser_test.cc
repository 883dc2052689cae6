#include "grammar/regex_parser.h"

#include <gtest/gtest.h>

#include "grammar/testing/accepts.h"

namespace tutti::grammar {
namespace {

bool Matches(std::string_view pattern, std::string_view text) {
  return testing::Accepts({.kind = Structure::Kind::kRegex, .text = std::string(pattern)}, text);
}

Status ErrorOf(std::string_view pattern) {
  return Compile({.kind = Structure::Kind::kRegex, .text = std::string(pattern)}).status();
}

TEST(RegexParser, MatchesTheWholeText) {
  EXPECT_TRUE(Matches("ab+c", "abbc"));
  EXPECT_FALSE(Matches("ab+c", "xabbc"));
  EXPECT_FALSE(Matches("ab+c", "ab"));
  EXPECT_TRUE(Matches("yes|no", "no"));
  EXPECT_TRUE(Matches("", ""));
}

TEST(RegexParser, CountsRepetitions) {
  EXPECT_TRUE(Matches("[0-9]{3}-[0-9]{2,4}", "123-4567"));
  EXPECT_FALSE(Matches("[0-9]{3}-[0-9]{2,4}", "123-45678"));
  EXPECT_TRUE(Matches("a{2,}", "aaaaa"));
  EXPECT_FALSE(Matches("a{2,}", "a"));
  EXPECT_TRUE(Matches("a{0}b", "b"));
  EXPECT_TRUE(Matches("a*?b+?", "aabb"));  // lazy counts match the same texts
  EXPECT_TRUE(Matches("a{,3}", "a{,3}"));  // no count
}

TEST(RegexParser, AnchorsCountWhereTheyStand) {
  EXPECT_TRUE(Matches("^abc$", "abc"));
  EXPECT_TRUE(Matches("(^a|b)c", "ac"));
  EXPECT_FALSE(Matches("a^b", "ab"));
  EXPECT_TRUE(Matches("a*^b", "b"));
  EXPECT_FALSE(Matches("a*^b", "ab"));
  EXPECT_TRUE(Matches("(a$)?b*", "a"));
  EXPECT_FALSE(Matches("(a$)b", "ab"));
}

TEST(RegexParser, ReadsClassesOfUnicode) {
  EXPECT_TRUE(Matches("[äöü]+", "üä"));
  EXPECT_FALSE(Matches("[äöü]+", "a"));
  EXPECT_TRUE(Matches(R"(\p{L}+)", "Straße"));
  EXPECT_FALSE(Matches(R"(\p{L}+)", "a1"));
  EXPECT_TRUE(Matches(R"(\p{Script=Greek}+)", "αβγ"));
  EXPECT_TRUE(Matches(R"([^\d\s]+)", "ab-c"));
  EXPECT_TRUE(Matches(R"(\u{1F600}\u00e9\x41)", "😀éA"));
  EXPECT_TRUE(Matches(R"(\uD83D\uDE00)", "😀"));
  EXPECT_TRUE(Matches(".", "😀"));
  EXPECT_FALSE(Matches(".", "\n"));
  EXPECT_TRUE(Matches("[^]", "\n"));
  EXPECT_FALSE(Matches("[]", ""));
}

TEST(RegexParser, MatchesNoTextThatIsNotUtf8) {
  EXPECT_FALSE(Matches("[^a]+", "\xC3"));
  EXPECT_FALSE(Matches(".+", "\xED\xA0\x80"));
  EXPECT_FALSE(Matches(".+", "\xC0\x80"));
}

TEST(RegexParser, RefusesByName) {
  EXPECT_EQ(ErrorOf("a(?=b)").message(), "regular expression has look-ahead \"(?=\" at byte 1");
  EXPECT_EQ(ErrorOf("(a)\\1").message(),
            "regular expression has a back reference \"\\1\" at byte 3");
  for (const std::string_view bad :
       {"(", ")", "a**", "*", "[a", "a{2,1}", "[z-a]", "\\", "\\q", "(?<!a)b", "\\bword\\b",
        "(?i)a", "\\p{Nothing}", "a{200000}", "^*", "\\uD83Dx"}) {
    const Status status = ErrorOf(bad);
    EXPECT_EQ(status.reason(), "grammar_regex") << bad;
    EXPECT_NE(status.message().find(" at byte "), std::string::npos) << bad;
  }
}

TEST(RegexParser, RefusesWhatIsTooLarge) {
  EXPECT_EQ(ErrorOf("((a{1,1000}){1,1000}){1,1000}").reason(), "grammar_too_complex");
  EXPECT_EQ(ErrorOf("(a|b)*a(a|b){20}").reason(), "grammar_too_complex");
  EXPECT_EQ(ErrorOf(std::string(100, '(') + std::string(100, ')')).reason(), "grammar_regex");
}

}  // namespace
}  // namespace tutti::grammar
