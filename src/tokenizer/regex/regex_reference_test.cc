// Matches against Oniguruma's (tools/make_regex_vectors.py), and against the hand-made matchers of
// the families that have one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/utf8.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/split_families.h"
#include "tokenizer/testing/reference_data.h"

namespace tutti::tokenizer {
namespace {

using Offsets = std::vector<size_t>;  // begin, end, begin, end, ...

class OffsetSink final : public MatchSink {
 public:
  void OnMatch(size_t begin, size_t end) override {
    offsets.push_back(begin);
    offsets.push_back(end);
  }
  Offsets offsets;
};

Offsets OffsetsOf(const Regex& regex, std::string_view text) {
  OffsetSink sink;
  regex.FindAll(text, sink);
  return sink.offsets;
}

std::string_view StringOf(const boost::json::value& json) { return json.as_string(); }

const boost::json::value& Vectors() {
  static const boost::json::value kJson =
      testing::ReadJson(testing::DataFolder() + "/split_expressions.json.gz");
  return kJson;
}

void ExpectCases(const Regex& regex, const boost::json::value& expression) {
  for (const auto& one : expression.at("cases").as_array()) {
    const std::string_view text = StringOf(one.at(0));
    EXPECT_EQ(OffsetsOf(regex, text), boost::json::value_to<Offsets>(one.at(1)))
        << StringOf(expression.at("name")) << ": " << StringOf(expression.at("pattern")) << " in "
        << ::testing::PrintToString(text);
  }
}

TEST(RegexReferenceTest, PublishedExpressionsMatchAsOnigurumaDoes) {
  size_t count = 0;
  for (const auto& expression : Vectors().at("published").as_array()) {
    const auto regex = Regex::Compile(StringOf(expression.at("pattern")));
    ASSERT_TRUE(regex.ok()) << StringOf(expression.at("name")) << ": " << regex.status();
    ExpectCases(**regex, expression);
    ++count;
  }
  EXPECT_GE(count, 40u);
}

TEST(RegexReferenceTest, RandomExpressionsMatchAsOnigurumaDoesOrAreRefused) {
  size_t taken = 0;
  const auto& all = Vectors().at("random").as_array();
  for (const auto& expression : all) {
    const auto regex = Regex::Compile(StringOf(expression.at("pattern")));
    if (!regex.ok()) {
      EXPECT_EQ(regex.status().reason(), "tokenizer_regex") << regex.status();
      continue;
    }
    ExpectCases(**regex, expression);
    ++taken;
  }
  EXPECT_GE(taken, all.size() * 3 / 4);
}

// Beyond them nothing is assigned but private use.
bool IsProbed(char32_t c) {
  return c < 0x32400 ? c < 0xD800 || c >= 0xE000 : (c & 0xFFFF) >= 0xFFF0 || c >> 12 == 0xE0;
}

TEST(RegexReferenceTest, SetsHoldTheSameCodePoints) {
  std::string all;
  std::vector<char32_t> at;  // [byte offset]
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (!IsProbed(c)) continue;
    AppendUtf8(c, all);
    at.resize(all.size(), c);
  }
  for (const auto& set : Vectors().at("sets").as_array()) {
    const std::string_view pattern = StringOf(set.at(0));
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    std::vector<uint32_t> members;
    const Offsets found = OffsetsOf(**regex, all);
    for (size_t i = 0; i < found.size(); i += 2) members.push_back(at[found[i]]);
    std::vector<uint32_t> expected;
    const auto ranges = boost::json::value_to<std::vector<uint32_t>>(set.at(1));
    for (size_t i = 0; i < ranges.size(); i += 2) {
      for (uint32_t c = ranges[i]; c <= ranges[i + 1]; ++c) {
        if (IsProbed(c)) expected.push_back(c);
      }
    }
    const auto [ours, theirs] = std::ranges::mismatch(members, expected);
    EXPECT_TRUE(members == expected)
        << pattern << " first differs at " << std::hex
        << std::min(ours == members.end() ? ~0u : *ours, theirs == expected.end() ? ~0u : *theirs);
  }
}

class MatchedWords final : public WordSink {
 public:
  void OnWord(std::string_view word) override { words.emplace_back(word); }
  std::vector<std::string> words;
};

// Characters of every kind that the pre-tokenizers' expressions distinguish, and invalid bytes.
std::string RandomText(Random& random) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "S",
                                                   "t",
                                                   "r",
                                                   "e",
                                                   "l",
                                                   "'",
                                                   "'s",
                                                   " ",
                                                   "  ",
                                                   "\n",
                                                   "\r",
                                                   "\t",
                                                   "1",
                                                   "23",
                                                   "!",
                                                   "-",
                                                   "/",
                                                   "\xC5\xBF",
                                                   "\xC3\xA9",
                                                   "\xC2\xA0",
                                                   "\xCC\x81",
                                                   "\xC2\xBD",
                                                   "\xE3\x80\x80",
                                                   "\xE4\xB8\xAD",
                                                   "\xF0\x9F\x98\x80",
                                                   "\xFF",
                                                   "\xE4\xB8"};
  std::string text;
  for (size_t n = 1 + random.Next() % 24; n > 0; --n) {
    if (random.Next() % 8 != 0) {
      text += kPieces[random.Next() % kPieces.size()];
    } else {
      AppendUtf8(static_cast<char32_t>(random.Next() % 0xD7FF + 1), text);
    }
  }
  return text;
}

TEST(RegexReferenceTest, EqualsTheHandMadeMatchers) {
  const std::pair<SplitFamily, std::string_view> families[] = {{SplitFamily::kGpt2, "gpt2"},
                                                               {SplitFamily::kLlama3, "llama3"},
                                                               {SplitFamily::kQwen2, "qwen2"}};
  for (const auto& [family, name] : families) {
    std::shared_ptr<const Regex> regex;
    for (const auto& expression : Vectors().at("published").as_array()) {
      if (StringOf(expression.at("name")) == name)
        regex = Regex::Compile(StringOf(expression.at("pattern"))).value();
    }
    ASSERT_TRUE(regex);
    Random random(1);
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = RandomText(random);
      MatchedWords words;
      SplitWords(family, text, words);
      std::vector<std::string> matched;
      const Offsets offsets = OffsetsOf(*regex, text);
      for (size_t m = 0; m < offsets.size(); m += 2)
        matched.push_back(text.substr(offsets[m], offsets[m + 1] - offsets[m]));
      ASSERT_EQ(matched, words.words) << name << ": " << ::testing::PrintToString(text);
    }
  }
}

}  // namespace
}  // namespace tutti::tokenizer
