// Encoding time is linear in the text for every text: one mebibyte of any one thing takes less than
// a second, and twice the text takes less than 2.3 times the time (linear_time.h). Measured in CPU
// time of this thread, so that a busy machine does not decide; the best of several runs counts.
#include <gtest/gtest.h>

#include "amount.h"
#include "cpu_time.h"
#include "linear_time.h"
#include "tokenizer/testing/reference_data.h"
#include "tokenizer/testing/tiny_vocabularies.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer {
namespace {

using support::Amount;
using support::ThreadSeconds;

const size_t kMebibyte = static_cast<size_t>(Amount(1 << 20, 1 << 16));  // a full one in full runs
const size_t kMost = static_cast<size_t>(Amount(1 << 18, 1 << 16));      // where growth is measured
const double kLimitSeconds = support::kSlower;

std::string Repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() + unit.size() <= bytes) text += unit;
  return text;
}

double SecondsToEncode(const Tokenizer& t, const std::string& text) {
  const double start = ThreadSeconds();
  const std::vector<TokenId> ids = t.Encode(text, {.add_special = false, .parse_special = true});
  const double seconds = ThreadSeconds() - start;
  // A space of three bytes may come before it; U+FDFA decomposes into eleven times its length.
  EXPECT_LE(ids.size(), 11 * text.size() + 3);
  return seconds;
}

TEST(ScalingTest, AMebibyteOfAnyOneThingTakesLessThanASecond) {
  const auto t = testing::LoadTokenizer("smollm");
  for (const std::string_view unit : {"a",
                                      " ",
                                      "_",
                                      "\n",
                                      "\r\n",
                                      "1",
                                      "\xE4\xB8\x80",
                                      "\xCC\x81",
                                      "\xF0\x9F\x91\xA8\xE2\x80\x8D",
                                      "\xFF",
                                      "ab",
                                      "a ",
                                      " \n",
                                      "<|im_start|",
                                      "<|im_start|>",
                                      "\xE2\x96\x81",
                                      "'",
                                      "\xE3\x80\x80",
                                      "=",
                                      "aB1 \n!",
                                      "\xC5\xBF"}) {
    EXPECT_LT(SecondsToEncode(*t, Repeated(unit, kMebibyte)), kLimitSeconds)
        << ::testing::PrintToString(unit);
  }
}

TEST(ScalingTest, SoItDoesForTheOtherKinds) {
  for (const char* name : {"llama-bpe", "deepseek-llm", "falcon", "llama-spm", "minilm"}) {
    const auto t = testing::LoadTokenizer(name);
    for (const std::string_view unit : {"a", " \n", "\xE4\xB8\x80"}) {
      EXPECT_LT(SecondsToEncode(*t, Repeated(unit, kMebibyte)), kLimitSeconds)
          << name << ": " << ::testing::PrintToString(unit);
    }
  }
}

// Pieces of every length up to the longest that is allowed, so that each place begins them all;
// with a normaliser, and words as long as the text.
TEST(ScalingTest, AUnigramModelStaysLinearWhereEveryPlaceBeginsEveryPiece) {
  std::vector<std::pair<std::string, double>> pieces;
  for (size_t length = 1; length <= 64; ++length) {
    pieces.emplace_back(std::string(length, 'a'), -1.0);
    pieces.emplace_back(std::string(length, ' '), -1.0);
  }
  TokenizerSpec spec = testing::UnigramSpecOf(pieces);
  spec.normalizer = {{.kind = NormalizerStep::Kind::kStripLeft},
                     {.kind = NormalizerStep::Kind::kStripRight}};
  spec.split[0].split = false;
  const auto t = testing::MustCreate(std::move(spec));
  for (const std::string_view unit :
       {"a", " ", "\xE4\xB8\x80", "a ", "\xFF", "\xCC\x81", "\xE2\x96\x81"}) {
    EXPECT_LT(SecondsToEncode(*t, Repeated(unit, kMebibyte)), kLimitSeconds)
        << ::testing::PrintToString(unit);
  }
}

void ExpectLinear(const Tokenizer& t, std::string_view unit, std::string_view name) {
  EXPECT_TRUE(support::TakesLinearTime(
      kMost, [&](size_t bytes) { return SecondsToEncode(t, Repeated(unit, bytes)); }))
      << name << ": " << ::testing::PrintToString(std::string(unit));
}

TEST(ScalingTest, TimeIsLinearForEveryKind) {
  for (const char* name : {"smollm", "llama-bpe", "falcon", "llama-spm", "minilm"}) {
    const auto t = testing::LoadTokenizer(name);
    for (const std::string_view unit : {"a", " ", "\xE4\xB8\x80"}) ExpectLinear(*t, unit, name);
  }
}

// Combining marks in falling order of their classes, which a sort by insertion would take quadratic
// time for; Hangul letters, which compose across the whole run.
TEST(ScalingTest, NormalFormsStayLinear) {
  using Kind = NormalizerStep::Kind;
  for (const Kind kind : {Kind::kNfc, Kind::kNfkd}) {
    TokenizerSpec spec = testing::ByteLevelSpec();
    spec.normalizer = {{.kind = kind}};
    spec.split = {{.kind = SplitStep::Kind::kByteLevel}};
    spec.has_steps = true;
    const auto t = testing::MustCreate(std::move(spec));
    for (const std::string_view unit : {"a", "\u0301", "\u0301\u0316", "\u0345\u0334",
                                        "\u1112\u1161\u11ab", "\u1161", "\u00e9", "\ufdfa"}) {
      EXPECT_LT(SecondsToEncode(*t, Repeated(unit, kMebibyte)), 2 * kLimitSeconds)
          << ::testing::PrintToString(std::string(unit));
      ExpectLinear(*t, unit, "normal form");
    }
  }
}

// A file is not trusted: a few steps could make gigabytes of a short text.
TEST(ScalingTest, RefusesNormalizersThatMultiplyTexts) {
  using Kind = NormalizerStep::Kind;
  const std::string content(4, 'a');
  const NormalizerStep text{.kind = Kind::kReplaceText, .pattern = "a", .content = content};
  const NormalizerStep expression{.kind = Kind::kReplaceRegex, .pattern = "a", .content = content};
  const NormalizerStep between{.kind = Kind::kReplaceRegex, .pattern = "b*", .content = "a"};
  const NormalizerStep bytes{.kind = Kind::kByteLevel};
  const auto status_of = [](const NormalizerStep& step, size_t times) {
    return Normalizer::Create(std::vector<NormalizerStep>(times, step)).status();
  };
  for (const NormalizerStep& step : {text, expression}) {
    EXPECT_TRUE(status_of(step, 2).ok());
    EXPECT_EQ(status_of(step, 3).reason(), "tokenizer_limit");
  }
  EXPECT_TRUE(status_of(between, 4).ok());
  EXPECT_EQ(status_of(between, 5).reason(), "tokenizer_limit");
  EXPECT_TRUE(status_of(bytes, 12).ok());
  EXPECT_EQ(status_of(bytes, 13).reason(), "tokenizer_limit");
  for (const NormalizerStep& step : {between, bytes}) {
    // The growth that is counted is the most that there is.
    const auto normalizer = Normalizer::Create(std::vector<NormalizerStep>(2, step));
    ASSERT_TRUE(normalizer.ok());
    EXPECT_LE(normalizer->Apply(std::string(1000, '\xFF')).size(), 4 * 1000 + 8U);
  }
  // Replacements that make nothing longer may follow each other.
  const NormalizerStep same{.kind = Kind::kReplaceRegex, .pattern = "\\s+", .content = " "};
  EXPECT_TRUE(status_of(same, kMaxNormalizerSteps).ok());
}

// T2: a vocabulary as large as a file may bring, every token beginning alike.
TEST(ScalingTest, AMillionTokensWithOnePrefixLoadWithinBounds) {
  for (const char* model : {"gpt2", "llama", "bert", "t5"}) {
    TokenizerSpec spec = model == std::string("gpt2")    ? testing::ByteLevelSpec({{"a", "b"}})
                         : model == std::string("llama") ? testing::SentencePieceSpec({})
                         : model == std::string("t5")    ? testing::UnigramSpecOf({})
                                                         : testing::WordPieceSpec({});
    const std::string prefix(40, 'a');
    while (spec.tokens.size() < static_cast<size_t>(Amount(1'000'000, 100'000)))
      spec.tokens.push_back(prefix + std::to_string(spec.tokens.size()));
    spec.token_types.assign(spec.token_types.empty() ? 0 : spec.tokens.size(), 1);
    if (model == std::string("llama")) {
      for (size_t id = 3; id < 259; ++id) spec.token_types[id] = 6;
      spec.scores.assign(spec.tokens.size(), -1);
    }
    if (model == std::string("t5")) spec.unigram_scores.assign(spec.tokens.size(), -1);
    const double start = ThreadSeconds();
    const auto t = Tokenizer::Create(std::move(spec));
    EXPECT_LT(ThreadSeconds() - start, 10 * kLimitSeconds) << model;
    ASSERT_TRUE(t.ok()) << model << ": " << t.status();
    EXPECT_LT(SecondsToEncode(**t, Repeated("a", kMebibyte / 16)), kLimitSeconds) << model;
  }
}

// A merge table that no training could produce: every merge makes an earlier one possible again.
TEST(ScalingTest, MergesInTheWorstOrderStayLinear) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (size_t n = 64; n >= 1; --n) merges.emplace_back(std::string(n, 'a'), "a");
  const auto t = testing::MustCreate(testing::ByteLevelSpec(merges));
  const std::string text = Repeated("a", kMebibyte);
  EXPECT_LT(SecondsToEncode(*t, text), kLimitSeconds);
  EXPECT_EQ(t->Decode(t->Encode(text)), text);
}

}  // namespace
}  // namespace tutti::tokenizer
