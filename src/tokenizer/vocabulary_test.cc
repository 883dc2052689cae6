#include "tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::AddToken;
using testing::ByteLevelSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MustCreate;
using testing::Refusal;
using testing::SentencePieceSpec;
using testing::Texts;
using testing::WordPieceSpec;

TEST(VocabularyTest, AcceptsASoundFileOfEachModel) {
  EXPECT_EQ(Refusal(ByteLevelSpec({{"a", "b"}})), "");
  EXPECT_EQ(Refusal(SentencePieceSpec({{"a", -1}})), "");
  EXPECT_EQ(Refusal(WordPieceSpec({"a"})), "");
}

TEST(VocabularyTest, EqualTextsAreARemarkAndTheLowerIdIsUsed) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  AddToken(spec, spec.tokens[256], TokenType::kNormal);
  AddToken(spec, "", TokenType::kUnused);
  AddToken(spec, "", TokenType::kUnused);
  const auto t = MustCreate(std::move(spec));
  EXPECT_EQ(t->Encode("ab", {.add_special = false}), std::vector<TokenId>{256});
  EXPECT_EQ(t->vocabulary().remarks().size(), 1u);
}

// A file with two equal texts has a merge whose piece is gone.
TEST(VocabularyTest, AMergeOfUnknownPiecesIsARemarkUnlessMostAre) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}, {"c", "d"}});
  spec.merges.push_back("a zz");
  const auto t = MustCreate(spec);
  EXPECT_EQ(Texts(*t, t->Encode("abcd", {.add_special = false})),
            (std::vector<std::string>{"ab", "cd"}));
  EXPECT_EQ(t->Remarks().size(), 1u);
  spec.merges = {"a zz", "zz b", "a b"};
  EXPECT_EQ(Refusal(std::move(spec)), "tokenizer_invalid");
}

TEST(VocabularyTest, SpecialIdsThatAreNoTokensMeanNone) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  spec.bos = -1;
  spec.pad = int64_t{1} << 40;
  spec.fim_mid = 1'000'000;
  const auto t = MustCreate(std::move(spec));
  EXPECT_EQ(t->vocabulary().special().bos, kNoToken);
  EXPECT_EQ(t->vocabulary().special().pad, kNoToken);
  EXPECT_EQ(t->vocabulary().remarks().size(), 2u) << "-1 is how files say that there is none";
}

TEST(VocabularyTest, RefusesWhatNoVocabularyMaySay) {
  using Break = void (*)(TokenizerSpec&);
  const std::pair<Break, const char*> faults[] = {
      {[](TokenizerSpec& s) { s.tokens.clear(); }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.tokens.emplace_back("one too many"); }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.token_types.pop_back(); }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.token_types[7] = 7; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.token_types[7] = -1; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.scores.assign(3, 0); }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.scores.assign(s.tokens.size(), std::nanf("")); },
       "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.merges = {"a"}; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.merges = {""}; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.merges = {"a zz"}; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.merges = {"zz a"}; }, "tokenizer_invalid"},
      {[](TokenizerSpec& s) { s.merges = {"b a"}; }, "tokenizer_invalid"},  // "ba" is no token
      {[](TokenizerSpec& s) { s.merges.clear(); },
       "tokenizer_invalid"},  // then "ab" cannot come about
      {[](TokenizerSpec& s) { s.pre = "default"; }, "tokenizer_unsupported"},
      {[](TokenizerSpec& s) { s.pre = ""; }, "tokenizer_unsupported"},
      {[](TokenizerSpec& s) { s.pre = "llama-5"; }, "tokenizer_unsupported"},
      {[](TokenizerSpec& s) { s.model = "t6"; }, "tokenizer_unsupported"},
      {[](TokenizerSpec& s) { s.model = ""; }, "tokenizer_unsupported"},
      {[](TokenizerSpec& s) { s.tokens[300 - 43] = std::string(kMaxTokenBytes + 1, 'x'); },
       "tokenizer_limit"},
      {[](TokenizerSpec& s) {
         AddToken(s, std::string(kMaxSpecialBytes + 1, 'x'), TokenType::kControl);
       },
       "tokenizer_limit"},
      {[](TokenizerSpec& s) { s.merges.assign(kMaxMerges + 1, "a b"); }, "tokenizer_limit"},
  };
  for (size_t i = 0; i < std::size(faults); ++i) {
    TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
    faults[i].first(spec);
    EXPECT_EQ(Refusal(std::move(spec)), faults[i].second) << "fault " << i;
  }
}

TEST(VocabularyTest, RefusesMoreTokensThanTheLimit) {
  TokenizerSpec spec = ByteLevelSpec();
  for (size_t i = spec.tokens.size(); i <= kMaxTokens; ++i)
    AddToken(spec, std::to_string(i) + "#", TokenType::kUnused);
  EXPECT_EQ(Refusal(std::move(spec)), "tokenizer_limit");
}

TEST(VocabularyTest, RefusesFaultsOfTheOtherModels) {
  TokenizerSpec no_scores = SentencePieceSpec({{"a", -1}});
  no_scores.scores.clear();
  EXPECT_EQ(Refusal(std::move(no_scores)), "tokenizer_invalid");

  TokenizerSpec byte_without_number = SentencePieceSpec({{"a", -1}});
  byte_without_number.tokens[10] = "<0xZZ>";
  EXPECT_EQ(Refusal(std::move(byte_without_number)), "tokenizer_invalid");

  TokenizerSpec no_unknown = WordPieceSpec({"a"});
  no_unknown.unk.reset();  // the default, 100, is outside of this vocabulary
  EXPECT_EQ(Refusal(std::move(no_unknown)), "tokenizer_invalid");
}

TEST(VocabularyTest, NamesAnUnknownPreTokenizerWithoutEchoingWhatCannotBePrinted) {
  TokenizerSpec spec = ByteLevelSpec();
  spec.pre = "evil\x1b[2J" + std::string(1000, 'x');
  const Status status = Tokenizer::Create(std::move(spec)).status();
  EXPECT_THAT(status.message(), HasSubstr("evil\\x1b[2J"));
  EXPECT_LT(status.message().size(), 200U);
  EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
}

TEST(VocabularyTest, EveryPreTokenizerOfTheListIsKnown) {
  for (const char* pre : {"smollm", "gpt-2", "llama-bpe", "llama3", "qwen2", "deepseek-llm",
                          "deepseek-coder", "starcoder", "falcon", "mpt", "refact", "command-r"}) {
    EXPECT_EQ(Refusal(ByteLevelSpec({{"a", "b"}}, pre)), "") << pre;
  }
}

TEST(VocabularyTest, AddsBeginningAndEndOnlyWhereTheFileSaysSo) {
  TokenizerSpec plain = ByteLevelSpec();
  plain.bos = 1;
  EXPECT_FALSE(MustCreate(plain)->vocabulary().add_bos());
  EXPECT_FALSE(MustCreate(plain)->vocabulary().add_eos());
  plain.pre = "llama-bpe";
  EXPECT_TRUE(MustCreate(plain)->vocabulary().add_bos()) << "the default of this pre-tokenizer";
  plain.add_bos = false;
  EXPECT_FALSE(MustCreate(plain)->vocabulary().add_bos()) << "the file's word stands above it";
  plain.add_eos = true;
  EXPECT_TRUE(MustCreate(plain)->vocabulary().add_eos());

  const auto tokenizer = MustCreate(SentencePieceSpec({}));
  const Vocabulary& llama = tokenizer->vocabulary();
  EXPECT_TRUE(llama.add_bos());
  EXPECT_TRUE(llama.add_space_prefix());
  EXPECT_EQ(llama.special().bos, 1);
  EXPECT_EQ(llama.special().eos, 2);
  EXPECT_EQ(llama.special().unk, 0);
}

TEST(VocabularyTest, EndOfGenerationIsEosEotEomAndKnownControlTokens) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  const auto base = static_cast<TokenId>(spec.tokens.size());
  AddToken(spec, "<|im_end|>", TokenType::kControl);
  AddToken(spec, "<end_of_turn>", TokenType::kNormal);  // looks like it, is text
  AddToken(spec, "<eot>", TokenType::kControl);
  AddToken(spec, "<other>", TokenType::kControl);
  spec.eot = base + 2;
  const auto eos = static_cast<TokenId>(*spec.eos);
  const auto tokenizer = MustCreate(std::move(spec));
  EXPECT_THAT(tokenizer->vocabulary().eog_tokens(), ElementsAre(eos, base, base + 2));
  EXPECT_TRUE(tokenizer->vocabulary().IsEog(base));
  EXPECT_FALSE(tokenizer->vocabulary().IsEog(base + 1));
  EXPECT_FALSE(tokenizer->vocabulary().IsEog(base + 3));
  EXPECT_FALSE(tokenizer->vocabulary().IsEog(-1));
  EXPECT_FALSE(tokenizer->vocabulary().IsEog(1 << 30));
}

TEST(VocabularyTest, PiecesAreTheBytesThatTokensStandFor) {
  const auto bytes = MustCreate(ByteLevelSpec({{" ", "t"}}));
  EXPECT_EQ(bytes->Piece(0), std::string_view("\0", 1));
  EXPECT_EQ(bytes->Piece(0xE2), "\xE2");
  EXPECT_EQ(bytes->Piece(256), " t");
  EXPECT_EQ(bytes->Piece(257), "<|start|>");
  EXPECT_EQ(bytes->Piece(-1), "");
  EXPECT_EQ(bytes->Piece(100000), "");

  const auto pieces = MustCreate(SentencePieceSpec({{"\xE2\x96\x81the", -1}}));
  EXPECT_EQ(pieces->Piece(3 + 0xE2), "\xE2");
  EXPECT_EQ(pieces->Piece(259), " the");

  TokenizerSpec rewritten = WordPieceSpec({"\xE2\x96\x81play", "ing", "[unused7]"});
  rewritten.wordpiece_plain_vocabulary = false;
  rewritten.token_types.assign(rewritten.tokens.size(), 1);
  for (size_t id = 0; id < 5; ++id) rewritten.token_types[id] = 3;
  const auto words = MustCreate(std::move(rewritten));
  EXPECT_EQ(words->Piece(5), "play");
  EXPECT_EQ(words->Piece(6), "##ing");
  EXPECT_EQ(words->Piece(7), "[unused7]");
  EXPECT_EQ(words->Piece(2), "[CLS]");
}

TEST(VocabularyTest, FindsTokensByTheirSpellingInTheFile) {
  const auto tokenizer = MustCreate(ByteLevelSpec({{" ", "t"}}));
  EXPECT_EQ(tokenizer->vocabulary().Find("\xC4\xA0t"), 256);  // U+0120, the symbol of the space
  EXPECT_EQ(tokenizer->vocabulary().Find("<|end|>"), 258);
  EXPECT_EQ(tokenizer->vocabulary().Find(" t"), kNoToken);
}

}  // namespace
}  // namespace tutti::tokenizer
