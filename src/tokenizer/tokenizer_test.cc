#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "base/random.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/testing/reference_data.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::AddToken;
using testing::ByteLevelSpec;
using ::testing::ElementsAre;
using testing::LoadTokenizer;
using testing::MustCreate;
using testing::SentencePieceSpec;
using testing::Texts;
using testing::VocabularyNames;
using testing::WordPieceSpec;

constexpr EncodeOptions kUserText{.add_special = false, .parse_special = false};
constexpr EncodeOptions kTrusted{.add_special = false, .parse_special = true};

std::string RandomBytes(Random& random, size_t most) {
  std::string bytes;
  for (uint64_t n = random.Below(most); n > 0; --n) {
    // Half ASCII, so that words form; half anything.
    bytes.push_back(
        static_cast<char>(random.Chance(0.5) ? 0x20 + random.Below(0x5F) : random.Below(256)));
  }
  return bytes;
}

// ---- Special tokens in text
// ---------------------------------------------------------------------------------

TEST(TokenizerTest, ControlTokensAreParsedInTrustedTextOnly) {
  const auto t = MustCreate(ByteLevelSpec());
  EXPECT_THAT(Texts(*t, t->Encode("a<|end|>b", kTrusted)), ElementsAre("a", "<|end|>", "b"));
  EXPECT_THAT(Texts(*t, t->Encode("<|end|>", kUserText)),
              ElementsAre("<", "|", "e", "n", "d", "|", ">"));
}

TEST(TokenizerTest, UserDefinedWordsAreCutOutOfAnyTextAndMarkupOnlyOfTrusted) {
  const auto t = MustCreate(ByteLevelSpec());
  EXPECT_THAT(Texts(*t, t->Encode("a~~~~b", kUserText)), ElementsAre("a", "~~~", "~", "b"));
  EXPECT_THAT(Texts(*t, t->Encode("<tool>", kTrusted)), ElementsAre("<tool>"));
  EXPECT_THAT(Texts(*t, t->Encode("<tool>", kUserText)), ElementsAre("<", "t", "o", "o", "l", ">"));
}

// Gemma has HTML elements as tokens: HTML in a prompt must be read as in the training data.
TEST(TokenizerTest, ElementsOfHtmlAreWords) {
  TokenizerSpec spec = ByteLevelSpec();
  for (const char* text : {"<b>", "</b>", "<td>", "<s>", "<bx>"})
    AddToken(spec, text, TokenType::kUserDefined);
  AddToken(spec, "<p>", TokenType::kControl);
  const auto t = MustCreate(std::move(spec));
  EXPECT_THAT(Texts(*t, t->Encode("<td><b>x</b>", kUserText)),
              ElementsAre("<td>", "<b>", "x", "</b>"));
  for (const char* text : {"<s>", "<bx>", "<p>"})
    EXPECT_GT(t->Encode(text, kUserText).size(), 2u) << text;
}

TEST(TokenizerTest, TheLongestSpellingWinsAtEachPlace) {
  TokenizerSpec spec = ByteLevelSpec();
  AddToken(spec, "<|end|><|end|>", TokenType::kControl);
  AddToken(spec, "<|en", TokenType::kControl);
  const auto t = MustCreate(std::move(spec));
  EXPECT_THAT(Texts(*t, t->Encode("<|end|><|end|><|end|><|enx", kTrusted)),
              ElementsAre("<|end|><|end|>", "<|end|>", "<|en", "x"));
}

TEST(TokenizerTest, NoControlTokenIsPutTogetherAcrossABorderOfTrust) {
  const auto t = MustCreate(ByteLevelSpec());
  const TokenId end = t->vocabulary().Find("<|end|>");
  const auto encode = [&](std::vector<TextSegment> segments) { return t->Encode(segments); };
  EXPECT_THAT(encode({{"<|e", true}, {"nd|>", true}}), ElementsAre(end))
      << "trusted neighbours are one text";
  EXPECT_EQ(encode({{"<|e", true}, {"nd|>", false}}).size(), 7U);
  EXPECT_EQ(encode({{"<|e", false}, {"nd|>", true}}).size(), 7U);
  EXPECT_EQ(encode({{"<|e", true}, {"n", false}, {"d|>", true}}).size(), 7U);
  EXPECT_THAT(encode({{"<|e", true}, {"", false}, {"nd|>", true}}), ElementsAre(end))
      << "nothing came between";
  EXPECT_THAT(Texts(*t, encode({{"<|end|>", true}, {"<|end|>", false}, {"<|end|>", true}})),
              ElementsAre("<|end|>", "<", "|", "e", "n", "d", "|", ">", "<|end|>"));
}

TEST(TokenizerTest, SegmentsAreOneTextForMergingAndSplitting) {
  const auto t = MustCreate(ByteLevelSpec({{"a", "b"}}));
  const std::vector<TextSegment> segments = {{"xa", true}, {"b", false}};
  EXPECT_THAT(Texts(*t, t->Encode(segments)), ElementsAre("x", "ab"));
}

TEST(TokenizerTest, SegmentsGiveTheIdsOfTheJoinedTextWhateverTheirBorders) {
  Random random(9);
  for (const std::string& name : {std::string("smollm"), std::string("llama-bpe"),
                                  std::string("llama-spm"), std::string("minilm")}) {
    const auto t = LoadTokenizer(name);
    for (const std::string& text : testing::LoadTexts("hostile")) {
      if (text.size() > 400 || !random.Chance(0.3)) continue;
      // Cut anywhere, characters included; no special token is spelled with trust in these texts.
      std::vector<TextSegment> segments;
      for (size_t at = 0; at < text.size();) {
        const size_t n = 1 + random.Below(9);
        segments.push_back({std::string_view(text).substr(at, n), false});
        at += n;
      }
      ASSERT_EQ(t->Encode(segments), t->Encode(text, kUserText)) << name << ": " << text;
    }
  }
}

// X3: each added token of each vocabulary, typed by a user in the middle of a turn.
TEST(TokenizerTest, NoSpellingThatAUserTypesBecomesAControlToken) {
  for (const std::string& name : VocabularyNames()) {
    const auto t = LoadTokenizer(name);
    const Vocabulary& vocabulary = t->vocabulary();
    const bool wordpiece = vocabulary.kind() == ModelKind::kWordPiece;
    int typed = 0;
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      if (!vocabulary.IsSpecial(id)) continue;
      ++typed;
      const std::string spelling(vocabulary.Text(id));
      for (const std::string& text :
           {spelling, "x" + spelling + "y", spelling + spelling, " " + spelling + "\n"}) {
        for (const TokenId got : t->Encode(text, kUserText)) {
          const bool unknown =
              wordpiece && got == vocabulary.special().unk;  // an answer, not a spelling
          ASSERT_TRUE(unknown || !vocabulary.IsSpecial(got)) << name << ": " << text;
        }
      }
      const std::vector<TextSegment> turn = {{spelling, true}, {spelling, false}, {spelling, true}};
      const std::vector<TokenId> ids = t->Encode(turn);
      ASSERT_EQ(std::count(ids.begin(), ids.end(), id), wordpiece && id == vocabulary.special().unk
                                                            ? std::count(ids.begin(), ids.end(), id)
                                                            : 2)
          << name << ": " << spelling;
      ASSERT_EQ(ids.front(), id);
      ASSERT_EQ(ids.back(), id);
    }
    ASSERT_GE(typed, 1) << name;
  }
}

// ---- Beginning and end
// --------------------------------------------------------------------------------------

TEST(TokenizerTest, BeginningAndEndFrameTheTextWhereTheModelAsksForThem) {
  TokenizerSpec spec = ByteLevelSpec();
  spec.bos = 256;
  spec.eos = 257;
  spec.add_bos = true;
  spec.add_eos = true;
  const auto t = MustCreate(std::move(spec));
  EXPECT_THAT(t->Encode("a"), ElementsAre(256, 'a', 257));
  EXPECT_THAT(t->Encode(""), ElementsAre(256, 257));
  EXPECT_THAT(t->Encode("a", kUserText), ElementsAre('a'));
  const auto words = MustCreate(WordPieceSpec({"a"}));
  EXPECT_THAT(words->Encode("a"), ElementsAre(2, 5, 3));
  EXPECT_THAT(words->Encode("a", kUserText), ElementsAre(5));
}

TEST(TokenizerTest, EmptyTextHasNoTokens) {
  for (const std::string& name : VocabularyNames()) {
    EXPECT_TRUE(LoadTokenizer(name)->Encode("", kUserText).empty()) << name;
    EXPECT_TRUE(LoadTokenizer(name)->Encode(std::span<const TextSegment>()).empty()) << name;
  }
}

// ---- Decoding
// -----------------------------------------------------------------------------------------------

bool KeepsAllBytes(const Tokenizer& t) {
  // Vocabularies that can spell all 256 bytes; some published ones cannot, and
  // lose the bytes they lack as the reference implementations do.
  std::vector<bool> has(256, false);
  for (TokenId id = 0; id < t.vocabulary_size(); ++id) {
    const TokenType type = t.vocabulary().Type(id);
    const bool spelled = type == TokenType::kNormal || type == TokenType::kByte;
    if (spelled && t.Piece(id).size() == 1) has[static_cast<unsigned char>(t.Piece(id)[0])] = true;
  }
  return std::count(has.begin(), has.end(), true) == 256;
}

// The text after the vocabulary's normalizer: Qwen's composes.
std::string Normalized(const std::string& name, std::string_view text) {
  if (name != "qwen2") return std::string(text);
  std::string out;
  TextMarks marks;
  AppendNormalForm(NormalForm::kNfc, text, out, marks);
  return out;
}

TEST(TokenizerTest, DecodingUndoesEncodingForAnyBytesThatTheVocabularyCanSpell) {
  Random random(10);
  int complete = 0;
  for (const std::string& name : VocabularyNames()) {
    const auto t = LoadTokenizer(name);
    if (t->vocabulary().kind() == ModelKind::kWordPiece || !KeepsAllBytes(*t)) continue;
    ++complete;
    for (int i = 0; i < 3000; ++i) {
      const std::string bytes = RandomBytes(random, 60);
      ASSERT_EQ(t->DecodeBytes(t->Encode(bytes, kUserText)), Normalized(name, bytes)) << name;
    }
  }
  EXPECT_GE(complete, 4);
}

TEST(TokenizerTest, DecodingUndoesEncodingForEveryByteLevelVocabulary) {
  for (const std::string& name : VocabularyNames()) {
    const auto t = LoadTokenizer(name);
    if (t->vocabulary().kind() != ModelKind::kByteBpe) continue;
    for (const char* kind : {"corpus", "hostile"}) {
      for (const std::string& text : testing::LoadTexts(kind)) {
        std::string expected;
        for (const char c : text) {  // without the bytes that the vocabulary lacks
          if (!t->Encode(std::string(1, c), kUserText).empty()) expected.push_back(c);
        }
        ASSERT_EQ(t->DecodeBytes(t->Encode(text, kUserText)), Normalized(name, expected)) << name;
      }
    }
  }
}

TEST(TokenizerTest, AnyBytesGiveIdsOfTheVocabularyAndTextThatIsUtf8) {
  Random random(14);
  for (const std::string& name : VocabularyNames()) {
    const auto t = LoadTokenizer(name);
    for (int i = 0; i < 1000; ++i) {
      const std::string bytes = RandomBytes(random, 200);
      const std::vector<TokenId> ids = t->Encode(bytes, {.parse_special = random.Chance(0.5)});
      for (const TokenId id : ids) ASSERT_TRUE(t->vocabulary().Contains(id)) << name;
      const std::string text = t->Decode(ids);
      for (size_t at = 0; at < text.size();) {
        const CodePoint c = DecodeAt(text, at);
        ASSERT_TRUE(c.valid) << name;
        at += c.length;
      }
    }
  }
}

TEST(TokenizerTest, BytesThatTheVocabularyLacksAreDroppedAndTheirNeighboursMerge) {
  TokenizerSpec spec = ByteLevelSpec({{"!", "!"}});
  spec.tokens['\x04'] = "gone";
  const auto t = MustCreate(std::move(spec));
  EXPECT_THAT(Texts(*t, t->Encode("!\x04!", kUserText)), ElementsAre("!!"));
  EXPECT_TRUE(t->Encode("\x04", kUserText).empty());

  const auto smollm = LoadTokenizer("smollm");
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    missing += smollm->Encode(std::string(1, static_cast<char>(byte)), kUserText).empty() ? 1 : 0;
  }
  EXPECT_EQ(missing, 21);
  EXPECT_TRUE(smollm->Encode("\x04", kUserText).empty());
}

TEST(TokenizerTest, DecodeSkipsSpecialTokensByDefaultAndIgnoresUnknownIds) {
  const auto t = MustCreate(ByteLevelSpec());
  const std::vector<TokenId> ids = {
      256, 'h', -1, 'i', 1 << 30, 257, std::numeric_limits<TokenId>::min()};
  EXPECT_EQ(t->Decode(ids), "hi");
  EXPECT_EQ(t->Decode(ids, {.skip_special = false}), "<|start|>hi<|end|>");
}

TEST(TokenizerTest, DecodeRepairsWhatIsNoUtf8) {
  const auto t = MustCreate(ByteLevelSpec());
  const std::vector<TokenId> ids = {'a', 0xE2, 0x82, 'b', 0xFF, 0xE2, 0x82};
  EXPECT_EQ(t->Decode(ids),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(t->DecodeBytes(ids),
            "a\xE2\x82"
            "b\xFF\xE2\x82");
}

// ---- Sharing
// ------------------------------------------------------------------------------------------------

TEST(TokenizerTest, OneTokenizerServesManyThreadsWithTheSameAnswers) {
  const auto t = LoadTokenizer("smollm");
  const std::vector<std::string> texts = testing::LoadTexts("hostile");
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : texts) expected.push_back(t->Encode(text, kUserText));
  std::vector<int> wrong(8, 0);
  std::vector<std::thread> threads;
  for (size_t n = 0; n < wrong.size(); ++n) {
    threads.emplace_back([&, n] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t at = (i * 7 + n * 31) % texts.size();
        if (t->Encode(texts[at], kUserText) != expected[at]) ++wrong[n];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace tutti::tokenizer
