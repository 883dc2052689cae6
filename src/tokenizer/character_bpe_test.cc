#include <gtest/gtest.h>

#include "base/random.h"
#include "tokenizer/bpe.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::CharacterBpeSpec;
using testing::MustCreate;
using Pieces = std::vector<std::string>;

Pieces TokensOf(const Tokenizer& t, std::string_view text) {
  Pieces texts;
  for (const TokenId id : t.Encode(text, {.add_special = false}))
    texts.emplace_back(t.vocabulary().Text(id));
  return texts;
}

TEST(CharacterBpeTest, MergesByRankTheLeftmostFirst) {
  const auto t = MustCreate(CharacterBpeSpec({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "a"}}));
  EXPECT_EQ(TokensOf(*t, "abc"), (Pieces{"abc"}));
  EXPECT_EQ(TokensOf(*t, "bca"), (Pieces{"bc", "a"}));
  EXPECT_EQ(TokensOf(*t, "aaa"), (Pieces{"aa", "a"}));
  EXPECT_EQ(TokensOf(*t, "aab"), (Pieces{"a", "ab"}));
}

TEST(CharacterBpeTest, UnknownCharactersAreFusedOrNotOrDropped) {
  TokenizerSpec spec = CharacterBpeSpec({{"a", "b"}});
  EXPECT_EQ(TokensOf(*MustCreate(spec), "abXYab"), (Pieces{"ab", "<unk>", "<unk>", "ab"}));
  spec.fuse_unknown = true;
  EXPECT_EQ(TokensOf(*MustCreate(spec), "abXYabX"), (Pieces{"ab", "<unk>", "ab", "<unk>"}));
  spec.model_unknown.reset();
  EXPECT_EQ(TokensOf(*MustCreate(spec), "abXYab"), (Pieces{"ab", "ab"}));
}

TEST(CharacterBpeTest, TextCannotSpellAControlTokenByMerging) {
  TokenizerSpec spec = CharacterBpeSpec({{"a", "b"}});
  spec.token_types.back() = static_cast<int32_t>(TokenType::kControl);
  EXPECT_EQ(TokensOf(*MustCreate(spec), "ab"), (Pieces{"a", "b"}));
}

// Cutting a word where no token bridges must not change what merging the whole of it gives: with a
// suffix that no text has, words are not cut.
TEST(CharacterBpeTest, CuttingAWordLeavesTheResultAsItIs) {
  Random random(17);
  for (int trial = 0; trial < 60; ++trial) {
    Pieces pieces = {"a", "b", "c", "d"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 10; ++i) {
      const std::string left = pieces[random.Below(pieces.size())];
      const std::string right = pieces[random.Below(pieces.size())];
      if (std::find(pieces.begin(), pieces.end(), left + right) != pieces.end()) continue;
      merges.emplace_back(left, right);
      pieces.push_back(left + right);
    }
    TokenizerSpec spec = CharacterBpeSpec(merges);
    spec.fuse_unknown = random.Chance(0.5);
    const auto cut = MustCreate(spec);
    spec.end_of_word_suffix = "X";
    const auto whole = MustCreate(std::move(spec));
    for (int text = 0; text < 30; ++text) {
      std::string word;
      for (uint64_t n = random.Below(40); n > 0; --n) word.push_back("abcdY"[random.Below(5)]);
      word += "YY";  // the suffix makes the last character another one: unknown in both
      EXPECT_EQ(TokensOf(*cut, word), TokensOf(*whole, word)) << word;
    }
  }
}

}  // namespace
}  // namespace tutti::tokenizer
