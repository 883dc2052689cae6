#include <gtest/gtest.h>

#include "base/random.h"
#include "tokenizer/testing/reference_data.h"
#include "tokenizer/testing/tiny_vocabularies.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer {
namespace {

using testing::ByteLevelSpec;
using testing::LoadTokenizer;
using testing::MustCreate;
using testing::SentencePieceSpec;

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

// Decodes `ids` one by one; every piece must be valid UTF-8, and all of them together Decode()'s
// text.
void ExpectStreamEqualsDecode(const std::shared_ptr<const Tokenizer>& t,
                              const std::vector<TokenId>& ids, DecodeOptions options) {
  StreamDecoder decoder(t, options);
  std::string all;
  for (const TokenId id : ids) {
    const std::string piece = decoder.Push(id);
    ASSERT_TRUE(IsValidUtf8(piece)) << ::testing::PrintToString(piece);
    all += piece;
  }
  const std::string last = decoder.Finish();
  ASSERT_TRUE(last.empty() || last == kReplacementUtf8);
  ASSERT_EQ(all + last, t->Decode(ids, options));
}

TEST(StreamDecoderTest, PiecesOfRandomIdsAreValidAndJoinToTheDecodedText) {
  Random random(12);
  for (const std::string& name : testing::VocabularyNames()) {
    const auto t = LoadTokenizer(name);
    for (int i = 0; i < 2000; ++i) {
      std::vector<TokenId> ids(random.Below(20));
      for (TokenId& id : ids) {
        // Low ids are mostly single bytes, which make broken characters; some are outside of the
        // vocabulary.
        const uint64_t bound =
            random.Chance(0.6) ? 400 : static_cast<uint64_t>(t->vocabulary_size()) + 3;
        id = static_cast<TokenId>(random.Below(bound)) - (random.Chance(0.02) ? 5 : 0);
      }
      const DecodeOptions options{.skip_special = random.Chance(0.5),
                                  .strip_space_prefix = random.Chance(0.5)};
      ASSERT_NO_FATAL_FAILURE(ExpectStreamEqualsDecode(t, ids, options)) << name;
    }
  }
}

TEST(StreamDecoderTest, StreamsEncodedTextsBackUnharmed) {
  for (const char* name : {"smollm", "llama-bpe", "deepseek-llm", "llama-spm"}) {
    const auto t = LoadTokenizer(name);
    for (const std::string& text : testing::LoadTexts("hostile")) {
      const std::vector<TokenId> ids = t->Encode(text, {.add_special = false});
      ASSERT_NO_FATAL_FAILURE(ExpectStreamEqualsDecode(t, ids, {})) << name;
    }
  }
}

TEST(StreamDecoderTest, ACharacterAppearsWithItsLastToken) {
  StreamDecoder decoder(MustCreate(ByteLevelSpec()));
  EXPECT_EQ(decoder.Push(0xF0), "");
  EXPECT_TRUE(decoder.pending());
  EXPECT_EQ(decoder.Push(0x9F), "");
  EXPECT_EQ(decoder.Push(0x98), "");
  EXPECT_EQ(decoder.Push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_FALSE(decoder.pending());
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoderTest, AnUnfinishedCharacterIsReplacedOnlyAtTheEnd) {
  StreamDecoder decoder(MustCreate(ByteLevelSpec()));
  EXPECT_EQ(decoder.Push(0xE2), "");
  EXPECT_EQ(decoder.Push(256), "") << "a control token leaves no text";
  EXPECT_EQ(decoder.Push(0x82), "");
  EXPECT_EQ(decoder.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.Push('a'), "a") << "Finish() starts anew";
}

TEST(StreamDecoderTest, ACopyGoesItsOwnWay) {
  StreamDecoder one(MustCreate(ByteLevelSpec()));
  one.Push(0xC3);
  StreamDecoder two = one;
  EXPECT_EQ(one.Push(0xA9), "\xC3\xA9");
  EXPECT_EQ(two.Push('x'), "\xEF\xBF\xBDx");
}

TEST(StreamDecoderTest, TheFirstSpaceOfAContinuationStaysAndOfAWholeTextGoes) {
  const auto t = MustCreate(SentencePieceSpec({{"\xE2\x96\x81"
                                                "a",
                                                -1},
                                               {"a", -2},
                                               {"\xE2\x96\x81", -3}}));
  const std::vector<TokenId> ids = t->Encode("a a", {.add_special = false});
  EXPECT_EQ(t->Decode(ids), "a a");
  StreamDecoder continuation(t);
  std::string text;
  for (const TokenId id : ids) continuation.Push(id, text);
  EXPECT_EQ(text, " a a");
}

}  // namespace
}  // namespace tutti::tokenizer
