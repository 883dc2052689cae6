#include "tokenizer/sentencepiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "base/random.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::AddToken;
using ::testing::ElementsAre;
using testing::MustCreate;
using testing::SentencePieceSpec;
using testing::Texts;

constexpr EncodeOptions kPlain{.add_special = false};

TokenizerSpec WithoutPrefix(TokenizerSpec spec) {
  spec.add_space_prefix = false;
  return spec;
}

// The definition, quadratic: merge the adjacent pair whose token scores best, the first of equals,
// until none is left.
std::vector<std::string> MergeByDefinition(std::string_view text,
                                           const std::map<std::string, float>& scores) {
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  for (;;) {
    size_t best = symbols.size();
    float best_score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = scores.find(symbols[i] + symbols[i + 1]);
      if (found == scores.end() || (best < symbols.size() && found->second <= best_score)) continue;
      best = i;
      best_score = found->second;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(SentencePieceTest, MergesAsTheDefinitionDoesForRandomVocabularies) {
  Random random(13);
  for (int round = 0; round < 100; ++round) {
    std::map<std::string, float> scores = {{"a", -100}, {"b", -100}, {"c", -100}};
    for (int i = 0; i < 25; ++i) {
      std::string piece;
      for (uint64_t n = 2 + random.Below(5); n > 0; --n)
        piece.push_back(static_cast<char>('a' + random.Below(3)));
      scores[piece] = -static_cast<float>(random.Below(12));
    }
    const auto t = MustCreate(WithoutPrefix(SentencePieceSpec({scores.begin(), scores.end()})));
    for (int i = 0; i < 100; ++i) {
      std::string text;
      for (uint64_t n = random.Below(60); n > 0; --n)
        text.push_back(static_cast<char>('a' + random.Below(3)));
      ASSERT_EQ(Texts(*t, t->Encode(text, kPlain)), MergeByDefinition(text, scores)) << text;
    }
  }
}

TEST(SentencePieceTest, ASpaceIsPutBeforeEachStretchOfText) {
  const auto t = MustCreate(SentencePieceSpec({{"\xE2\x96\x81", -3},
                                               {"a", -2},
                                               {"\xE2\x96\x81"
                                                "a",
                                                -1}}));
  EXPECT_THAT(Texts(*t, t->Encode("a", kPlain)), ElementsAre(" a"));
  EXPECT_THAT(Texts(*t, t->Encode(" a", kPlain)), ElementsAre(" ", " a"));
  EXPECT_THAT(Texts(*t, t->Encode("a</s>a", {.add_special = false, .parse_special = true})),
              ElementsAre(" a", "</s>", " a"));
  EXPECT_THAT(Texts(*t, t->Encode("a")), ElementsAre("<s>", " a"));
}

TEST(SentencePieceTest, WhatIsNoTokenFallsBackToItsBytes) {
  const auto t = MustCreate(WithoutPrefix(SentencePieceSpec({{"a", -1}})));
  EXPECT_THAT(t->Encode("a\xC3\xA9\xFF", kPlain), ElementsAre(259, 3 + 0xC3, 3 + 0xA9, 3 + 0xFF));
}

TEST(SentencePieceTest, WithoutByteTokensOneUnknownStandsForACharacter) {
  TokenizerSpec spec;
  spec.model = "llama";
  AddToken(spec, "<unk>", TokenType::kUnknown);
  AddToken(spec, "<s>", TokenType::kControl);
  AddToken(spec, "</s>", TokenType::kControl);
  AddToken(spec, "a", TokenType::kNormal);
  spec.scores.assign(4, 0);
  const auto t = MustCreate(WithoutPrefix(std::move(spec)));
  EXPECT_THAT(t->Encode("a\xC3\xA9"
                        "a",
                        kPlain),
              ElementsAre(3, 0, 3));
}

TEST(SentencePieceTest, TextCannotSpellControlUnknownOrByteTokens) {
  // With these pieces, merging could reach "<s>", "<unk>" and "<0x0A>", whose score of 0 would be
  // the best.
  const auto t = MustCreate(WithoutPrefix(SentencePieceSpec({{"<", -9},
                                                             {"s", -9},
                                                             {">", -9},
                                                             {"<s", -1},
                                                             {"u", -9},
                                                             {"n", -9},
                                                             {"k", -9},
                                                             {"<u", -1},
                                                             {"<un", -1},
                                                             {"<unk", -1},
                                                             {"0", -9},
                                                             {"x", -9},
                                                             {"A", -9},
                                                             {"<0", -1},
                                                             {"<0x", -1},
                                                             {"<0x0", -1},
                                                             {"<0x0A", -1}})));
  EXPECT_THAT(Texts(*t, t->Encode("<s>", kPlain)), ElementsAre("<s", ">"));
  EXPECT_THAT(Texts(*t, t->Encode("<unk>", kPlain)), ElementsAre("<unk", ">"));
  EXPECT_THAT(Texts(*t, t->Encode("<0x0A>", kPlain)), ElementsAre("<0x0A", ">"));
}

TEST(SentencePieceTest, AnUnusedTokenIsPassedThroughAndTakenApartAgain) {
  TokenizerSpec spec = WithoutPrefix(SentencePieceSpec({{"a", -9}, {"b", -9}, {"c", -9}}));
  AddToken(spec, "ab", TokenType::kUnused);
  spec.scores.push_back(-1);
  AddToken(spec, "abc", TokenType::kNormal);
  spec.scores.push_back(-2);
  const auto t = MustCreate(std::move(spec));
  EXPECT_THAT(Texts(*t, t->Encode("abc", kPlain)), ElementsAre("abc")) << "reached through ab";
  EXPECT_THAT(Texts(*t, t->Encode("ab", kPlain)), ElementsAre("a", "b"));
  EXPECT_THAT(Texts(*t, t->Encode("abab", kPlain)), ElementsAre("a", "b", "a", "b"));
}

TEST(SentencePieceTest, AnInfiniteScoreIsStillAScore) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto t = MustCreate(WithoutPrefix(
      SentencePieceSpec({{"a", -1}, {"b", -1}, {"ab", -kInfinity}, {"ba", kInfinity}})));
  EXPECT_THAT(Texts(*t, t->Encode("ab", kPlain)), ElementsAre("ab"));
  EXPECT_THAT(Texts(*t, t->Encode("aba", kPlain)), ElementsAre("a", "ba"));
}

}  // namespace
}  // namespace tutti::tokenizer
