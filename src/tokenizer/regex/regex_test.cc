#include "tokenizer/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Matches final : public MatchSink {
 public:
  void OnMatch(size_t begin, size_t end) override { spans.emplace_back(begin, end); }
  std::vector<std::pair<size_t, size_t>> spans;
};

std::vector<std::pair<size_t, size_t>> Spans(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  Matches matches;
  if (regex.ok()) (*regex)->FindAll(text, matches);
  return matches.spans;
}

std::vector<std::string> MatchedTexts(std::string_view pattern, std::string_view text) {
  std::vector<std::string> texts;
  for (const auto& [begin, end] : Spans(pattern, text))
    texts.emplace_back(text, begin, end - begin);
  return texts;
}

using Span = std::pair<size_t, size_t>;

TEST(RegexTest, PrefersTheFirstAlternativeAndTheLongerCount) {
  EXPECT_THAT(MatchedTexts("a|ab", "abab"), ElementsAre("a", "a"));
  EXPECT_THAT(MatchedTexts("ab|a", "aab"), ElementsAre("a", "ab"));
  EXPECT_THAT(MatchedTexts("a{2,3}", "aaaaa"), ElementsAre("aaa", "aa"));
  EXPECT_THAT(MatchedTexts("a{2,3}?", "aaaaa"), ElementsAre("aa", "aa"));
  EXPECT_THAT(MatchedTexts("a+?b", "aab"), ElementsAre("aab"));
  EXPECT_THAT(MatchedTexts("(a|b)*?c", "abc"), ElementsAre("abc"));
}

TEST(RegexTest, GoesBackBehindAMatchInLinearTime) {
  EXPECT_THAT(MatchedTexts("a*b|a", "aaab aaa"), ElementsAre("aaab", "a", "a", "a"));
  EXPECT_THAT(MatchedTexts("\\s+$", "a  b  "), ElementsAre("  "));
}

TEST(RegexTest, SkipsAnEmptyMatchBehindTheLastMatch) {
  EXPECT_THAT(Spans("a*", "baac"), ElementsAre(Span(0, 0), Span(1, 3), Span(4, 4)));
  EXPECT_THAT(Spans("", "ab"), ElementsAre(Span(0, 0), Span(1, 1), Span(2, 2)));
  EXPECT_THAT(Spans("(?=(\\d{3})+(?!\\d))", "1234567"), ElementsAre(Span(1, 1), Span(4, 4)));
  EXPECT_THAT(Spans("a*", ""), IsEmpty());
}

TEST(RegexTest, LeavesALoopThatReadNothing) {
  EXPECT_THAT(Spans("(|a)*", "aa"), ElementsAre(Span(0, 0), Span(1, 1), Span(2, 2)));
  EXPECT_THAT(MatchedTexts("(a?|b)*c", "abac"), ElementsAre("abac"));
}

TEST(RegexTest, TestsWhatStandsAroundAPlace) {
  EXPECT_THAT(Spans("\\b", "ab cd"), ElementsAre(Span(0, 0), Span(2, 2), Span(3, 3), Span(5, 5)));
  EXPECT_THAT(Spans("\\B", "ab cd"), ElementsAre(Span(1, 1), Span(4, 4)));
  EXPECT_THAT(Spans("$", "a\nb\n"), ElementsAre(Span(1, 1), Span(3, 3), Span(4, 4)));
  EXPECT_THAT(Spans("^", "a\nb\n"), ElementsAre(Span(0, 0), Span(2, 2)));
  EXPECT_THAT(Spans("\\Z", "a\nb\n"), ElementsAre(Span(3, 3), Span(4, 4)));
  EXPECT_THAT(Spans("\\A|\\z", "ab"), ElementsAre(Span(0, 0), Span(2, 2)));
  EXPECT_THAT(MatchedTexts("(?<=\\s|^)a", "a aa a"), ElementsAre("a", "a", "a"));
  EXPECT_THAT(MatchedTexts("(?<!a)b", "ab b"), ElementsAre("b"));
  EXPECT_THAT(MatchedTexts("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567 1x"),
              ElementsAre("1", "234", "567"));
}

TEST(RegexTest, TakesAllWithoutGivingBackWherePossessive) {
  EXPECT_THAT(MatchedTexts("a++b|a", "aab"), ElementsAre("aab"));
  EXPECT_THAT(MatchedTexts("a++ab|c", "aabc"), ElementsAre("c"));
  EXPECT_THAT(MatchedTexts("a?+a|b", "ab"), ElementsAre("b"));
  EXPECT_THAT(MatchedTexts("(?>a*)ab|b", "aab"), ElementsAre("b"));
}

TEST(RegexTest, IgnoresCaseWhereAskedTo) {
  EXPECT_THAT(MatchedTexts("(?i:'S)s", "'Ss 's '\xC5\xBFs"), ElementsAre("'Ss", "'\xC5\xBFs"));
  EXPECT_THAT(MatchedTexts("a(?i)b|c", "aB C aC"), ElementsAre("aB", "aC"));
  EXPECT_THAT(MatchedTexts("(?i:[^a-c])", "Bd"), ElementsAre("d"));
  EXPECT_THAT(MatchedTexts("(?i:k(?-i:k))", "Kk\xE2\x84\xAAk KK"),
              ElementsAre("Kk", "\xE2\x84\xAAk"));
}

TEST(RegexTest, ReadsClassesAsOnigurumaDoes) {
  EXPECT_THAT(MatchedTexts("[^(\\s|[.,])]+", "ab) .cd]|e"), ElementsAre("ab", "cd]", "e"));
  EXPECT_THAT(MatchedTexts("[a-w&&[^c-g]z]", "abcghz"), ElementsAre("a", "b", "h"));
  EXPECT_THAT(MatchedTexts("[]a-]", "]-b"), ElementsAre("]", "-"));
  EXPECT_THAT(MatchedTexts("[a-c-e]", "b-de"), ElementsAre("b", "-", "e"));
  EXPECT_THAT(MatchedTexts("[[:^alpha:]]", "a1"), ElementsAre("1"));
  EXPECT_THAT(MatchedTexts("[\\x41\\x{e9}\\u00e8\\t]", "A\xC3\xA9\xC3\xA8\t"),
              ElementsAre("A", "\xC3\xA9", "\xC3\xA8", "\t"));
  EXPECT_THAT(MatchedTexts("\\p{^L}\\P{Nd}\\p{ uppercase-Letter }", "1aA"), ElementsAre("1aA"));
}

TEST(RegexTest, CountsAByteThatIsNotUtf8AsOneUnassignedCharacter) {
  EXPECT_THAT(Spans("\\p{Cn}", "a\xFF\xC3\xE4\xB8z"),
              ElementsAre(Span(1, 2), Span(2, 3), Span(3, 4), Span(4, 5)));
  EXPECT_THAT(Spans("\\S+", "\xB8 \xF0\x9F\x98\x80"), ElementsAre(Span(0, 1), Span(2, 6)));
}

TEST(RegexTest, RefusesByConstruct) {
  const auto refused = [](std::string_view pattern) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_FALSE(regex.ok()) << pattern;
    if (regex.ok()) return std::string();
    EXPECT_EQ(regex.status().reason(), "tokenizer_regex");
    return regex.status().message();
  };
  EXPECT_THAT(refused("(a)b\\1"), HasSubstr("a back reference: \"\\\\1\" at 4"));
  EXPECT_THAT(refused("(?<=ab)c"), HasSubstr("a look-behind of more than one character"));
  EXPECT_THAT(refused("(?:ab)++"), HasSubstr("a possessive count of more than one set"));
  EXPECT_THAT(refused("(?>a|bc)"), HasSubstr("an atomic group"));
  EXPECT_THAT(refused("\\G"), HasSubstr("the place where the search began"));
  EXPECT_THAT(refused("a\\Kb"), HasSubstr("a start of the match that is kept"));
  EXPECT_THAT(refused("(?(1)a|b)"), HasSubstr("a group of an unknown kind: \"(?(\" at 0"));
  EXPECT_THAT(refused("\\p{Klingon}"), HasSubstr("an unknown property: \"\\\\p{Klingon}\" at 0"));
  EXPECT_THAT(refused("(?i:\xC3\x9F)"), HasSubstr("ignored case"));
  EXPECT_THAT(refused("(?i:ss)"), HasSubstr("ignored case"));
  EXPECT_THAT(refused("(?=a)*"), HasSubstr("a count behind an assertion"));
  EXPECT_THAT(refused("a("), HasSubstr("an open group"));
  EXPECT_THAT(refused("a)"), HasSubstr("an unmatched )"));
  EXPECT_THAT(refused("[a"), HasSubstr("an open bracket"));
  EXPECT_THAT(refused("*"), HasSubstr("a count of nothing"));
  EXPECT_THAT(refused("[b-a]"), HasSubstr("a range without an end"));
  EXPECT_THAT(refused("\xFF"), HasSubstr("not UTF-8"));
}

TEST(RegexTest, RefusesWhatPassesALimit) {
  const auto reason = [](const std::string& pattern) {
    const auto regex = Regex::Compile(pattern);
    return regex.ok() ? "ok" : regex.status().reason();
  };
  EXPECT_EQ(reason(std::string((64 << 10) + 1, 'a')), "tokenizer_limit");
  EXPECT_EQ(reason("a{1001}"), "tokenizer_limit");
  EXPECT_EQ(reason("(a{1000}){1000}"), "tokenizer_limit");
  EXPECT_EQ(reason(std::string(200, '(') + std::string(200, ')')), "tokenizer_limit");
  EXPECT_EQ(reason(std::string(200, '[') + "a" + std::string(200, ']')), "tokenizer_limit");
  // Counts of counts: each is a level of the tree, which is gone through by recursion.
  EXPECT_EQ(reason("a" + std::string(60'000, '?')), "tokenizer_limit");
  std::string counts = "a";
  for (int i = 0; i < 20'000; ++i) counts += "{1}";
  EXPECT_EQ(reason(counts), "tokenizer_limit");
  EXPECT_EQ(reason("a" + std::string(90, '?')), "ok");
  EXPECT_EQ(reason("[ab]{60}a(?=[ab]*c[ab]{30}$)"), "tokenizer_limit");
}

}  // namespace
}  // namespace tutti::tokenizer
