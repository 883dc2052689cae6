#include <gtest/gtest.h>

#include "tokenizer/chat_template.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::AddToken;
using testing::ByteLevelSpec;
using testing::MustCreate;

constexpr std::string_view kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(TurnEndTest, ReadsWhatTheTemplateWritesBehindAnAnswer) {
  EXPECT_EQ(TextBehindAnswer(std::string(kChatml), {}), "<|im_end|>\n");
  EXPECT_EQ(TextBehindAnswer("{% for m in messages %}{{ m.content }} {{ eos_token }}{% endfor %}",
                             {.eos = "</s>"}),
            "</s>");
  EXPECT_EQ(TextBehindAnswer("{% for m in messages %}{{ m.content }}{% endfor %}", {}), "");
  EXPECT_EQ(TextBehindAnswer("{{ raise_exception('no') }}", {}), "");
  EXPECT_EQ(TextBehindAnswer("{% for", {}), "");
}

// A file may call the end of a turn a normal or a user-defined token and name another one as EOS.
TEST(TurnEndTest, EndsTheAnswerWhateverTheTokenType) {
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined, TokenType::kNormal}) {
    TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
    const auto end = static_cast<TokenId>(spec.tokens.size());
    AddToken(spec, "<|im_end|>", type);
    AddToken(spec, "<|im_start|>", TokenType::kControl);
    spec.eos = 0;
    spec.chat_template = kChatml;
    const auto t = MustCreate(std::move(spec));
    EXPECT_TRUE(t->vocabulary().IsEog(end));
    EXPECT_EQ(t->Encode("<|im_end|>", {.add_special = false, .parse_special = true}),
              std::vector<TokenId>{end});
    EXPECT_EQ(t->Decode(std::vector<TokenId>{end}), "");
  }
}

TEST(TurnEndTest, TakesAnyNumberOfEnds) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  spec.ends = {3, 4, 5, 6, 7, 8, 9, 1'000'000, -1};
  const auto t = MustCreate(std::move(spec));
  for (TokenId id = 3; id <= 9; ++id) EXPECT_TRUE(t->vocabulary().IsEog(id)) << id;
}

TEST(TurnEndTest, TakesOneToEightEndsOfEveryType) {
  for (const TokenType type : {TokenType::kNormal, TokenType::kControl, TokenType::kUserDefined,
                               TokenType::kUnused, TokenType::kByte}) {
    for (size_t count = 1; count <= 8; ++count) {
      TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
      const auto first = static_cast<TokenId>(spec.tokens.size());
      for (size_t i = 0; i < 8; ++i) AddToken(spec, "<e" + std::to_string(i) + ">", type);
      for (size_t i = 0; i < count; ++i) spec.ends.push_back(first + static_cast<TokenId>(i));
      const auto t = MustCreate(std::move(spec));
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(t->vocabulary().IsEog(first + static_cast<TokenId>(i)), i < count)
            << static_cast<int>(type) << ": " << i << " of " << count;
      }
    }
  }
}

// RoBERTa's vocabulary holds "<|endoftext|>" as a normal token: text becomes it by merging alone.
TEST(TurnEndTest, ANormalTokenThatNoTemplateWritesStaysText) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  const auto id = static_cast<TokenId>(spec.tokens.size());
  AddToken(spec, "<|endoftext|>", TokenType::kNormal);
  const auto t = MustCreate(std::move(spec));
  EXPECT_FALSE(t->vocabulary().IsEog(id));
  EXPECT_GT(t->Encode("<|endoftext|>", {.add_special = false, .parse_special = true}).size(), 1u);
}

TEST(TurnEndTest, HarmonyGoesOnBehindAMessage) {
  TokenizerSpec spec = ByteLevelSpec({{"a", "b"}});
  AddToken(spec, "<|return|>", TokenType::kControl);
  AddToken(spec, "<|call|>", TokenType::kControl);
  spec.eos.reset();
  const auto t = MustCreate(std::move(spec));
  EXPECT_FALSE(t->vocabulary().IsEog(t->vocabulary().Find("<|end|>")));
  EXPECT_TRUE(t->vocabulary().IsEog(t->vocabulary().Find("<|return|>")));
}

}  // namespace
}  // namespace tutti::tokenizer
