// Tests which tokens of a vocabulary mark the parts of a fill-in-the-middle prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/testing/tiny_vocabularies.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {
namespace {

using testing::AddToken;
using testing::ByteLevelSpec;
using ::testing::ElementsAre;
using testing::MustCreate;
using testing::SentencePieceSpec;

TokenizerSpec With(const std::vector<std::string>& texts, TokenType type = TokenType::kControl) {
  TokenizerSpec spec = ByteLevelSpec();
  for (const std::string& text : texts) AddToken(spec, text, type);
  return spec;
}

std::optional<InfillTokens> Found(TokenizerSpec spec) {
  return MustCreate(std::move(spec))->vocabulary().infill();
}

// The id of the n-th token that With() added.
constexpr TokenId At(int n) { return 260 + n; }

TEST(InfillTokensTest, KnowsEachFamilyBySpelling) {
  const std::vector<std::string> families[] = {
      {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
      {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
      {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
      {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"},
      {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},
      {"<PRE>", "<SUF>", "<MID>"},
      {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
      {"<|prefix|>", "<|suffix|>", "<|middle|>"},
  };
  for (const std::vector<std::string>& family : families) {
    for (const TokenType type :
         {TokenType::kControl, TokenType::kUserDefined, TokenType::kNormal}) {
      const std::optional<InfillTokens> tokens = Found(With(family, type));
      ASSERT_TRUE(tokens.has_value()) << family[0];
      EXPECT_THAT(tokens->All(), ElementsAre(At(0), At(1), At(2))) << family[0];
      EXPECT_FALSE(tokens->suffix_first) << family[0];
    }
  }
}

TEST(InfillTokensTest, TheSuffixComesFirstWhereTrainingHadItSo) {
  EXPECT_TRUE(Found(With({"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"}))->suffix_first);
  const std::vector<std::string> shared = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
  TokenizerSpec mellum = With(shared);
  mellum.pre = "mellum";
  EXPECT_TRUE(Found(mellum)->suffix_first);
  EXPECT_FALSE(Found(With(shared))->suffix_first);
}

TEST(InfillTokensTest, MistralHasNoMiddle) {
  for (const bool has_middle : {false, true}) {
    std::vector<std::string> texts = {"[PREFIX]", "[SUFFIX]"};
    if (has_middle) texts.emplace_back("[MIDDLE]");
    const std::optional<InfillTokens> tokens = Found(With(texts));
    ASSERT_TRUE(tokens.has_value());
    EXPECT_TRUE(tokens->suffix_first);
    EXPECT_EQ(tokens->prefix, At(0));
    EXPECT_EQ(tokens->suffix, At(1));
    EXPECT_EQ(tokens->middle, kNoToken);
  }
}

TEST(InfillTokensTest, APartOfAFamilyIsNone) {
  EXPECT_FALSE(Found(With({})).has_value());
  EXPECT_FALSE(Found(With({"<|fim_prefix|>", "<|fim_suffix|>"})).has_value());
  EXPECT_FALSE(Found(With({"<|fim_prefix|>", "<|fim_suffix|>", "<fim_middle>"})).has_value());
  EXPECT_FALSE(Found(With({"[PREFIX]", "[MIDDLE]"})).has_value());
}

TEST(InfillTokensTest, FileAndProjectTokensAreOptional) {
  const std::optional<InfillTokens> qwen =
      Found(With({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>",
                  "<|repo_name|>", "<|file_sep|>"}));
  EXPECT_EQ(qwen->pad, At(3));
  EXPECT_EQ(qwen->repository, At(4));
  EXPECT_EQ(qwen->file, At(5));
  const std::optional<InfillTokens> gemma =
      Found(With({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>"}));
  EXPECT_EQ(gemma->file, At(3));
  EXPECT_EQ(gemma->repository, kNoToken);
  const std::optional<InfillTokens> coder =
      Found(With({"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"}));
  EXPECT_EQ(coder->repository, At(3));
  EXPECT_EQ(coder->file, At(4));
  EXPECT_FALSE(Found(With({"<|repo_name|>", "<|file_sep|>"})).has_value()) << "no marks of a hole";
}

TEST(InfillTokensTest, IdsOfTheFileComeBeforeSpellings) {
  TokenizerSpec spec = With({"<a>", "<b>", "<c>", "<d>", "<e>", "<f>"});
  spec.fim_pre = At(0);
  spec.fim_suf = At(1);
  EXPECT_FALSE(Found(spec).has_value()) << "no middle";
  spec.fim_mid = At(2);
  spec.fim_rep = At(3);
  spec.fim_sep = At(4);
  spec.fim_pad = At(5);
  const std::optional<InfillTokens> tokens = Found(spec);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_THAT(tokens->All(), ElementsAre(At(0), At(1), At(2), At(3), At(4), At(5)));
  // One that is named by the file, the others by their spellings.
  TokenizerSpec mixed = With({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<mid>"});
  mixed.fim_mid = At(3);
  EXPECT_THAT(Found(mixed)->All(), ElementsAre(At(0), At(1), At(3)));
  TokenizerSpec mistral = With({"[PREFIX]", "[SUFFIX]", "[MIDDLE]"});
  mistral.fim_pre = At(0);
  mistral.fim_suf = At(1);
  mistral.fim_mid = At(2);
  EXPECT_EQ(Found(mistral)->middle, kNoToken);
  EXPECT_TRUE(Found(mistral)->suffix_first);
}

TEST(InfillTokensTest, NoTextBecomesOne) {
  const std::vector<std::string> texts = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined, TokenType::kNormal}) {
    const auto t = MustCreate(With(texts, type));
    EXPECT_EQ(t->Encode("a<fim_middle>", {.add_special = false}).size(), 13u);
    EXPECT_THAT(t->Encode("a<fim_middle>", {.add_special = false, .parse_special = true}),
                ElementsAre('a', At(2)));
  }
}

TEST(InfillTokensTest, CodeLlamasEndOfAnInfillEndsAnAnswer) {
  TokenizerSpec spec = SentencePieceSpec({{"\u2581", -1}});
  AddToken(spec, "\u2581<EOT>", TokenType::kControl);
  spec.scores.push_back(0);
  const auto t = MustCreate(std::move(spec));
  EXPECT_TRUE(t->vocabulary().IsEog(t->vocabulary().Find("\u2581<EOT>")));
}

TEST(ContinuationTest, ASentencePieceModelPutsNoSpaceBeforeIt) {
  const auto t = MustCreate(SentencePieceSpec(
      {{"\u2581", -9}, {"a", -9}, {"b", -9}, {"\u2581a", -1}, {"ab", -2}, {"\u263a", -9}}));
  const auto texts = [&](const std::vector<TokenId>& ids) { return testing::Texts(*t, ids); };
  EXPECT_THAT(texts(t->Encode("ab", {.add_special = false})), ElementsAre(" a", "b"));
  EXPECT_THAT(texts(t->EncodeContinuation("ab")), ElementsAre("ab"));
  EXPECT_THAT(texts(t->EncodeContinuation(" ab")), ElementsAre(" a", "b"));
  EXPECT_THAT(texts(t->EncodeContinuation("\na")), ElementsAre("\n", "a"));
  EXPECT_TRUE(t->EncodeContinuation("").empty());
  EXPECT_THAT(t->LeadingTokens(), ElementsAre(t->vocabulary().special().bos));
}

TEST(ContinuationTest, AByteModelEncodesItAsAnyText) {
  const auto t = MustCreate(ByteLevelSpec({{"a", "b"}}));
  EXPECT_EQ(t->EncodeContinuation("ab"), t->Encode("ab", {.add_special = false}));
  EXPECT_TRUE(t->LeadingTokens().empty());
}

}  // namespace
}  // namespace tutti::tokenizer
