#include "tokenizer/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MustCreate;
using testing::Texts;
using testing::WordPieceSpec;

// The reference test covers normalising and matching at large; these are the rules one by one.
std::vector<std::string> Tokens(std::string_view text, std::optional<bool> lowercase = {},
                                std::optional<bool> strip_accents = {}) {
  TokenizerSpec spec =
      WordPieceSpec({"play", "##ing", "##s", "p", "##l", "cafe", "caf\xC3\xA9", "Play", ".", "$",
                     "[", "]", "sep", "a", "##a", "\xE4\xBD\xA0", "#"});
  spec.lowercase = lowercase;
  spec.strip_accents = strip_accents;
  const auto t = MustCreate(std::move(spec));
  return Texts(*t, t->Encode(text, {.add_special = false}));
}

TEST(WordPieceTest, LongestPieceWinsAndAnUnmatchedRestMakesTheWordUnknown) {
  EXPECT_THAT(Tokens("playing plays pl"), ElementsAre("play", "##ing", "play", "##s", "p", "##l"));
  EXPECT_THAT(Tokens("playq play"), ElementsAre("[UNK]", "play"));
}

TEST(WordPieceTest, CaseAndAccentsGoUnlessTheFileKeepsThem) {
  EXPECT_THAT(Tokens("PLAY Caf\xC3\xA9 cafe\xCC\x81"), ElementsAre("play", "cafe", "cafe"));
  EXPECT_THAT(Tokens("Play caf\xC3\xA9", false), ElementsAre("Play", "caf\xC3\xA9"));
  EXPECT_THAT(Tokens("PLAY CAF\xC3\x89", true, false), ElementsAre("play", "caf\xC3\xA9"));
}

TEST(WordPieceTest, PunctuationSymbolsAndIdeographsStandAlone) {
  EXPECT_THAT(Tokens("play.play$"), ElementsAre("play", ".", "play", "$"));
  EXPECT_THAT(Tokens("a\xE4\xBD\xA0"
                     "a"),
              ElementsAre("a", "\xE4\xBD\xA0", "a"));
  EXPECT_THAT(Tokens("##ing"), ElementsAre("#", "#", "[UNK]"));
}

TEST(WordPieceTest, AWordOfMoreThanAHundredCharactersIsUnknown) {
  std::vector<std::string> hundred(100, "##a");
  hundred[0] = "a";
  EXPECT_EQ(Tokens(std::string(100, 'a')), hundred);
  EXPECT_THAT(Tokens(std::string(101, 'a')), ElementsAre("[UNK]"));
  EXPECT_THAT(Tokens(std::string(1 << 20, 'a') + " play"), ElementsAre("[UNK]", "play"));
}

TEST(WordPieceTest, WhatLeavesNoTraceLeavesNone) {
  EXPECT_THAT(Tokens(std::string_view("pl\0ay\x01 \xE2\x80\x8D\xEF\xBF\xBD", 13)),
              ElementsAre("play"));
  EXPECT_THAT(Tokens("\xFF\xC3 \x80play\xF0\x9F"), ElementsAre("play"))
      << "invalid bytes read as U+FFFD";
  EXPECT_THAT(Tokens(" \t\r\n"), IsEmpty());
}

TEST(WordPieceTest, SpecialTokensAreParsedOnlyWhereAskedFor) {
  const auto t = MustCreate(WordPieceSpec({"a", "[", "]", "sep"}));
  EXPECT_THAT(t->Encode("a[SEP]a", {.add_special = false, .parse_special = true}),
              ElementsAre(5, 3, 5));
  EXPECT_THAT(Texts(*t, t->Encode("a[SEP]a", {.add_special = false})),
              ElementsAre("a", "[", "sep", "]", "a"));
}

TEST(WordPieceTest, DecodingJoinsPiecesAndSetsWordsApart) {
  const auto t = MustCreate(WordPieceSpec({"play", "##ing", ".", "we"}));
  EXPECT_EQ(t->Decode(t->Encode("we playing.")), "we playing.");
  EXPECT_EQ(t->Decode(t->Encode("we"), {.skip_special = false}), "[CLS] we [SEP]");
}

}  // namespace
}  // namespace tutti::tokenizer
