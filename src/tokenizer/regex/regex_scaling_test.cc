// Search time is linear in the text for every expression and every text; compile time is bounded
// for every expression. Measured in CPU time of this thread; the best of several runs counts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "amount.h"
#include "cpu_time.h"
#include "linear_time.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using support::Amount;
using support::ThreadSeconds;

class CountingSink final : public MatchSink {
 public:
  void OnMatch(size_t, size_t) override { ++count; }
  size_t count = 0;
};

std::string ManyOf(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() + unit.size() <= bytes) text += unit;
  return text;
}

double SecondsToFindAll(const Regex& regex, const std::string& text) {
  CountingSink sink;
  const double start = ThreadSeconds();
  regex.FindAll(text, sink);
  const double seconds = ThreadSeconds() - start;
  EXPECT_LE(sink.count, text.size() + 1);
  return seconds;
}

void ExpectLinear(const std::string& name, const Regex& regex) {
  const auto most_bytes = static_cast<size_t>(Amount(256, 128)) << 10;
  for (const std::string_view unit : {"a", " ", "1", "aB", "a ", " \n", "'s", "\xE4\xB8\x80"}) {
    EXPECT_TRUE(support::TakesLinearTime(most_bytes,
                                         [&](size_t bytes) {
                                           const double seconds =
                                               SecondsToFindAll(regex, ManyOf(unit, bytes));
                                           EXPECT_LT(seconds, support::kSlower) << name;
                                           return seconds;
                                         }))
        << name << ": " << ::testing::PrintToString(unit);
  }
}

TEST(RegexScalingTest, PublishedExpressionsTakeLinearTime) {
  const boost::json::value vectors =
      testing::ReadJson(testing::DataFolder() + "/split_expressions.json.gz");
  for (const auto& expression : vectors.at("published").as_array()) {
    const double start = ThreadSeconds();
    const auto regex = Regex::Compile(std::string_view(expression.at("pattern").as_string()));
    EXPECT_LT(ThreadSeconds() - start, 0.25 * support::kSlower);
    ASSERT_TRUE(regex.ok()) << regex.status();
    ExpectLinear(std::string(expression.at("name").as_string()), **regex);
  }
}

// Each reads far ahead, in an engine that tries and goes back: behind a match, before it fails, in
// nested loops, in a look-ahead.
TEST(RegexScalingTest, SoDoExpressionsThatReadFarAhead) {
  for (const char* const pattern :
       {"a*b|a", "\\s+$", "(a+)+b", "(a|a)*c", "(?:a?){1}a*b|a", "(?=(a*)b)a|a", "(?=.*z).|a",
        "(?!.*z)\\w+|\\s", ".*?z|a", "(?:(?:(?:a*)*)*)*b|\\s"}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    ExpectLinear(pattern, **regex);
  }
}

std::string ManyTimes(std::string_view unit, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += unit;
  return text;
}

TEST(RegexScalingTest, HostileExpressionsAreCompiledOrRefusedInTime) {
  std::string many_sets;
  for (int c = 0; c < 8'000; ++c)
    many_sets += "[" + std::string("\xE4\xB8") + static_cast<char>(0x80 + c % 64) + "a-" +
                 static_cast<char>('b' + c % 24) + "]";
  const std::vector<std::string> patterns = {
      ManyTimes("(?:a{1000}|", 60) + "b" + ManyTimes(")", 60),
      "(a|b)*a" + ManyTimes("[ab]", 500),
      "(?=.*a" + ManyTimes("[ab]", 60) + ")b",
      ManyTimes("\\p{L}", 13'000),
      ManyTimes("[\\p{L}\\p{N}\\s]", 4'000),
      "(?i:" + ManyTimes("[^\\p{L}]", 7'000) + ")",
      "(?i:" + ManyTimes("aS", 30'000) + ")",
      ManyTimes("[[:alpha:]]", 5'900),
      ManyTimes("a?", 4'000) + ManyTimes("a", 4'000),
      ManyTimes("(|a)*", 60),
      ManyTimes("(a*)*", 2'000),
      ManyTimes("(?=a|", 90) + "b" + ManyTimes(")", 90),
      "(?:" + ManyTimes("a|", 30'000) + "b)*",
      ManyTimes("\\b", 2'000) + "a",
      "(?:(?:(?:\\s{9}){9}){9}x|\\s{700}y|(?:\\s\\S){200})",
      many_sets};
  for (const std::string& pattern : patterns) {
    const double start = ThreadSeconds();
    const auto regex = Regex::Compile(pattern);
    EXPECT_LT(ThreadSeconds() - start, support::kSlower) << pattern.substr(0, 64);
    if (regex.ok()) ExpectLinear(pattern.substr(0, 64), **regex);
  }
}

}  // namespace
}  // namespace tutti::tokenizer
