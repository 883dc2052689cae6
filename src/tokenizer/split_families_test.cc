#include "tokenizer/split_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/pre_tokenizer_names.h"

namespace tutti::tokenizer {
namespace {

using ::testing::ElementsAre;

class Collector final : public WordSink {
 public:
  void OnWord(std::string_view word) override { words.emplace_back(word); }
  std::vector<std::string> words;
};

std::vector<std::string> Words(const char* pre, std::string_view text) {
  Collector collector;
  const auto splitter = PreTokenizer::Create(FindPreTokenizer(pre)->split);
  CHECK(splitter.ok()) << splitter.status();
  splitter->Split(text, true, collector);
  return collector.words;
}

// The reference test covers the splits at large; these are the rules one by one.
TEST(PreTokenizerTest, Gpt2KeepsOneSpaceWithTheWordBehindIt) {
  EXPECT_THAT(Words("gpt-2", "Hello  world 42!! it's"),
              ElementsAre("Hello", " ", " world", " 42", "!!", " it", "'s"));
  EXPECT_THAT(Words("gpt-2", "a \n b\t"), ElementsAre("a", " \n", " b", "\t"));
  EXPECT_THAT(Words("gpt-2", "I'M"), ElementsAre("I", "'", "M"));
}

TEST(PreTokenizerTest, SmollmIsolatesEveryDigit) {
  EXPECT_THAT(Words("smollm", "in 2024: \xC2\xBD"),
              ElementsAre("in", " ", "2", "0", "2", "4", ":", " ", "\xC2\xBD"));
  EXPECT_THAT(Words("smollm", "a  1"), ElementsAre("a", "  ", "1"));
}

TEST(PreTokenizerTest, Llama3GroupsDigitsByThreeAndTakesOneMarkWithAWord) {
  EXPECT_THAT(Words("llama-bpe", "12345 (abc) I'LL"),
              ElementsAre("123", "45", " (", "abc", ")", " I", "'LL"));
  EXPECT_THAT(Words("llama3", "x!\n\ny \n z"), ElementsAre("x", "!\n\n", "y", " \n", " z"));
  EXPECT_THAT(Words("llama3", "it'\xC5\xBF on"), ElementsAre("it", "'\xC5\xBF", " on"));
}

TEST(PreTokenizerTest, Qwen2IsLlama3WithSingleDigits) {
  EXPECT_THAT(Words("qwen2", "a 123"), ElementsAre("a", " ", "1", "2", "3"));
}

TEST(PreTokenizerTest, DeepseekIsolatesLineEndsAndIdeographs) {
  EXPECT_THAT(Words("deepseek-llm", "ab \xE4\xBD\xA0\xE5\xA5\xBD\n12"),
              ElementsAre("ab", " ", "\xE4\xBD\xA0\xE5\xA5\xBD", "\n", "1", "2"));
  EXPECT_THAT(Words("deepseek-coder", "f(x);\r\n"), ElementsAre("f", "(", "x", ");", "\r", "\n"));
}

TEST(PreTokenizerTest, FalconIsolatesPunctuationAndCutsDigitsInThrees) {
  EXPECT_THAT(Words("falcon", "a+b 12345"), ElementsAre("a", "+", "b", " ", "123", "45"));
}

TEST(PreTokenizerTest, AnUnknownNameIsNotGuessed) {
  for (const char* name : {"", "default", "GPT-2", "gpt2", "smollm ", "llama-v9"}) {
    EXPECT_FALSE(FindPreTokenizer(name).has_value()) << name;
  }
}

TEST(PreTokenizerTest, WordsCoverAnyBytesInOrder) {
  constexpr std::string_view kPieces[] = {" ",
                                          "\n",
                                          "\r",
                                          "a",
                                          "B",
                                          "'",
                                          "s",
                                          "1",
                                          "\xC2\xBD",
                                          "!",
                                          "\xE4\xBD\xA0",
                                          "\xCC\x81",
                                          "\x80",
                                          "\xC3",
                                          "\xF0\x9F",
                                          "\xF0\x9F\x98\x80",
                                          "\xE3\x80\x80",
                                          "\xFF",
                                          "\t",
                                          "\xC2\xA0"};
  Random random(8);
  for (const char* pre :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "falcon"}) {
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (uint64_t n = random.Below(30); n > 0; --n)
        text += kPieces[random.Below(std::size(kPieces))];
      std::string joined;
      for (const std::string& word : Words(pre, text)) {
        ASSERT_FALSE(word.empty()) << pre;
        joined += word;
      }
      ASSERT_EQ(joined, text) << pre;
    }
  }
}

}  // namespace
}  // namespace tutti::tokenizer
