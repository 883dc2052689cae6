#include "tokenizer/unigram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::tokenizer {
namespace {

using testing::MustCreate;
using testing::Refusal;
using testing::UnigramSpecOf;
using Pieces = std::vector<std::string>;

Pieces Cut(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  Pieces texts;
  for (const TokenId id : tokenizer.Encode(text, {false, parse_special}))
    texts.emplace_back(tokenizer.vocabulary().Text(id));
  return texts;
}

TEST(UnigramTest, OfAllWaysToCutAWordTheBestSumWins) {
  const auto t = MustCreate(UnigramSpecOf({{"\u2581", -3},
                                           {"a", -2},
                                           {"b", -2},
                                           {"ab", -3},
                                           {"\u2581a", -2.5},
                                           {"\u2581ab", -7},
                                           {"bb", -1}}));
  EXPECT_EQ(Cut(*t, "ab"), (Pieces{"\u2581a", "b"}));
  EXPECT_EQ(Cut(*t, "abb"), (Pieces{"\u2581a", "bb"}));
  EXPECT_EQ(Cut(*t, "abab"), (Pieces{"\u2581a", "b", "ab"}));
  EXPECT_EQ(Cut(*t, "ab ab"), (Pieces{"\u2581a", "b", "\u2581a", "b"}));
  EXPECT_EQ(Cut(*t, "\u2581ab"), (Pieces{"\u2581a", "b"})) << "a mark that is there is not doubled";
  EXPECT_EQ(t->Encode("a").front(), 0);
  EXPECT_EQ(t->Encode("a").back(), 1);
}

// The definition: every way to cut a short word.
double BestSum(const std::vector<std::pair<std::string, double>>& pieces, std::string_view word,
               double unknown) {
  if (word.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  bool single = false;
  for (const auto& [text, score] : pieces) {
    if (!word.starts_with(text)) continue;
    single |= text.size() == 1;
    best = std::max(best, score + BestSum(pieces, word.substr(text.size()), unknown));
  }
  if (!single) best = std::max(best, unknown + BestSum(pieces, word.substr(1), unknown));
  return best;
}

TEST(UnigramTest, TheSumIsTheGreatestThereIs) {
  Random random(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::pair<std::string, double>> pieces;
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (uint64_t n = 1 + random.Below(4); n > 0; --n)
        text.push_back(static_cast<char>('a' + random.Below(3)));
      const bool known = std::any_of(pieces.begin(), pieces.end(),
                                     [&](const auto& piece) { return piece.first == text; });
      if (!known) pieces.emplace_back(text, -random.Uniform() * 10);
    }
    double least = 0;  // that of the special tokens
    for (const auto& piece : pieces) least = std::min(least, piece.second);
    TokenizerSpec spec = UnigramSpecOf(pieces);
    spec.split[0].prepend = SplitStep::Prepend::kNever;
    const std::vector<double> scores = spec.unigram_scores;
    const auto t = MustCreate(std::move(spec));
    std::string word;
    for (uint64_t n = 1 + random.Below(10); n > 0; --n)
      word.push_back(static_cast<char>('a' + random.Below(3)));
    double sum = 0;
    const std::vector<TokenId> ids = t->Encode(word, {.add_special = false});
    size_t known = 0;
    for (const TokenId id : ids) {
      if (id == 2) continue;
      sum += scores[static_cast<size_t>(id)];
      known += t->vocabulary().Text(id).size();
    }
    sum += static_cast<double>(word.size() - known) * (least - 10);
    EXPECT_NEAR(sum, BestSum(pieces, word, least - 10), 1e-9) << word;
  }
}

TEST(UnigramTest, AdjacentUnknownCharactersAreOneUnknownTokenOrTheirBytes) {
  const auto t = MustCreate(UnigramSpecOf({{"\u2581", -1}, {"a", -2}}));
  EXPECT_EQ(Cut(*t, "a\u4e00\u4e8ca\xFF"), (Pieces{"\u2581", "a", "<unk>", "a", "<unk>"}));
  TokenizerSpec spec = UnigramSpecOf({{"\u2581", -1}, {"a", -2}});
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    testing::AddToken(spec, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">",
                      TokenType::kByte);
    spec.unigram_scores.push_back(-20);
  }
  spec.byte_fallback = true;
  const auto bytes = MustCreate(std::move(spec));
  EXPECT_EQ(Cut(*bytes, "a\xC3\xA9"), (Pieces{"\u2581", "a", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(bytes->Decode(bytes->Encode("a\u00e9 a")), "a\u00e9 a");
}

// A vocabulary with a piece twice once read behind the end of the piece. Ids as tokenizers 0.22 has
// them.
TEST(UnigramTest, OfAPieceThatStandsTwiceTheLastOneCounts) {
  const auto ids = [](const std::vector<std::pair<std::string, double>>& pieces,
                      std::string_view text) {
    TokenizerSpec spec;
    spec.model = "t5";
    spec.unk = 0;
    spec.has_steps = true;
    for (const auto& [piece, score] : pieces) {
      spec.tokens.push_back(piece);
      spec.unigram_scores.push_back(score);
    }
    const auto tokenizer = MustCreate(std::move(spec));
    return tokenizer->Encode(text, {.add_special = false});
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ids({{"<unk>", 0}, {"a", -1}, {"b", -2}, {"ab", -4}, {"a", -0.5}, {"ab", -1}}, "ab"),
            (Ids{5}));
  EXPECT_EQ(ids({{"<unk>", 0}, {"a", -1}, {"b", -2}, {"ab", -4}, {"a", -0.5}, {"ab", -1}}, "ba"),
            (Ids{2, 4}));
  EXPECT_EQ(ids({{"<unk>", 0}, {"a", -0.5}, {"b", -2}, {"ab", -1}, {"ab", -4}}, "ab"), (Ids{1, 2}));
}

TEST(UnigramTest, SpecialTokensComeFromTrustedTextAlone) {
  const auto t = MustCreate(UnigramSpecOf({{"\u2581", -1}, {"<", -2}, {"s", -2}, {">", -2}}));
  EXPECT_EQ(Cut(*t, "<s>"), (Pieces{"\u2581", "<", "s", ">"}));
  EXPECT_EQ(Cut(*t, "<s>", true), (Pieces{"<s>"}));
}

TEST(UnigramTest, TheNormaliserStripsAndSqueezes) {
  using Kind = NormalizerStep::Kind;
  TokenizerSpec spec = UnigramSpecOf({{"\u2581", -1}, {"a", -2}, {"\t", -2}});
  spec.normalizer = {{.kind = Kind::kStripLeft},
                     {.kind = Kind::kStripRight},
                     {.kind = Kind::kReplaceRegex, .pattern = " {2,}", .content = " "}};
  const auto t = MustCreate(spec);
  EXPECT_EQ(Cut(*t, " \t a   a\u3000\n"), (Pieces{"\u2581", "a", "\u2581", "a"}));
  EXPECT_EQ(Cut(*t, " \u00a0 "), Pieces{});
  spec.normalizer.clear();
  EXPECT_EQ(Cut(*MustCreate(spec), " a"), (Pieces{"\u2581", "a"}));
  spec.split.insert(spec.split.begin(), {.kind = SplitStep::Kind::kWhitespaceSplit});
  EXPECT_EQ(Cut(*MustCreate(spec), "\ta\u3000\u2003a"), (Pieces{"\u2581", "a", "\u2581", "a"}));
}

TEST(UnigramTest, WhatCannotBeRunIsRefused) {
  const std::vector<std::pair<std::string, double>> good = {{"a", -1}};
  EXPECT_EQ(Refusal(UnigramSpecOf(good)), "");
  TokenizerSpec spec = UnigramSpecOf(good);
  spec.unigram_scores.clear();
  EXPECT_EQ(Refusal(spec), "tokenizer_invalid");
  spec = UnigramSpecOf(good);
  spec.unigram_scores.push_back(0);  // one more than tokens
  EXPECT_EQ(Refusal(spec), "tokenizer_invalid");
  spec = UnigramSpecOf(good);
  spec.unigram_scores[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Refusal(spec), "tokenizer_invalid");
  spec = UnigramSpecOf(good);
  spec.unk.reset();
  EXPECT_EQ(Refusal(spec), "tokenizer_invalid");
  EXPECT_EQ(Refusal(UnigramSpecOf({{std::string(kMaxPieceBytes + 1, 'a'), -1}})),
            "tokenizer_limit");
  spec = UnigramSpecOf(good);
  spec.normalizer = {{.kind = NormalizerStep::Kind::kCharsmap}};
  EXPECT_EQ(Refusal(spec), "tokenizer_invalid") << "a step without its map";
}

// ---- The map

std::string Words(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)};
}

TEST(PrecompiledCharsmapTest, MapsThatLieAreRefusedOrLeaveTheTextAlone) {
  for (const std::string& bytes :
       {std::string(), std::string("abc"), Words({0}), Words({8, 1}), Words({3, 1}),
        Words({4, 0}) + "no end", Words({4, 0}) + std::string(300, 'x') + std::string(1, '\0')}) {
    EXPECT_EQ(PrecompiledCharsmap::Create(bytes).status().reason(), "tokenizer_invalid");
  }
  Random random(6);
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<uint32_t> words = {static_cast<uint32_t>(4 * (1 + random.Below(400)))};
    for (uint32_t i = 0; i < words[0] / 4; ++i)
      words.push_back(static_cast<uint32_t>(random.Next()));
    if (random.Chance(0.5)) {  // units that lead on
      for (size_t i = 1; i < words.size(); ++i)
        words[i] = static_cast<uint32_t>(random.Below(400) << 10 | random.Below(2) << 8 |
                                         random.Below(128));
    }
    const auto map = PrecompiledCharsmap::Create(Words(words) + std::string("abc\0de\0", 7));
    ASSERT_TRUE(map.ok());
    std::string out;
    TextMarks marks;
    map->Apply("hello w\u00f6rld e\u0301 \xFF\xC3 \u1112\u1161", out, marks);
    EXPECT_LE(out.size(), 30u * 4);
  }
}

TEST(GraphemeTest, WhatCombinesStaysTogether) {
  const auto clusters = [](std::string_view text) {
    std::vector<std::string> out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = GraphemeEnd(text, at);
      out.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return out;
  };
  EXPECT_EQ(clusters("ab"), (Pieces{"a", "b"}));
  EXPECT_EQ(clusters("e\u0301x"), (Pieces{"e\u0301", "x"}));
  EXPECT_EQ(clusters("\r\n\n\r"), (Pieces{"\r\n", "\n", "\r"}));
  EXPECT_EQ(clusters("\u1112\u1161\u11ab\u1112"), (Pieces{"\u1112\u1161\u11ab", "\u1112"}));
  EXPECT_EQ(clusters("a\u200db"), (Pieces{"a\u200d", "b"}));
  EXPECT_EQ(clusters("\n\u0301"), (Pieces{"\n", "\u0301"}));
  EXPECT_EQ(clusters("\xFF\u0301"), (Pieces{"\xFF", "\u0301"}));
  EXPECT_EQ(clusters("\u0600"
                     "1"),
            (Pieces{"\u0600"
                    "1"}));
}

TEST(ByteTrieTest, FindsWhatWasPutInAndNothingElse) {
  const Pieces strings = {"a", "ab", "abc", "b", std::string("\0\xFF", 2), "bcd"};
  std::vector<std::pair<std::string_view, TokenId>> entries;
  for (size_t i = 0; i < strings.size(); ++i)
    entries.emplace_back(strings[i], static_cast<TokenId>(i));
  const auto trie = ByteTrie::Create(entries);
  ASSERT_TRUE(trie.ok());
  const auto find = [&](std::string_view text) {
    int32_t node = ByteTrie::kRoot;
    for (const char c : text) {
      node = trie->Next(node, static_cast<unsigned char>(c));
      if (node == ByteTrie::kNone) return kNoToken;
    }
    return trie->id(node);
  };
  for (size_t i = 0; i < strings.size(); ++i) EXPECT_EQ(find(strings[i]), static_cast<TokenId>(i));
  for (const char* absent : {"", "bc", "c", "abcd", "ac"}) EXPECT_EQ(find(absent), kNoToken);
  EXPECT_EQ(ByteTrie::Create({})->Next(ByteTrie::kRoot, 'a'), ByteTrie::kNone);
}

}  // namespace
}  // namespace tutti::tokenizer
