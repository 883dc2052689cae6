#include <gtest/gtest.h>

#include "tokenizer/testing/tiny_vocabularies.h"
#include "tokenizer/tokenizer.h"

namespace tutti::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

const std::vector<FramePlace> kPair = {
    {100, 0}, {FramePlace::kFirstText, 0}, {101, 0}, {FramePlace::kSecondText, 1}, {101, 1}};

TEST(EncoderInput, APairStandsInItsFrameWithItsKinds) {
  const EncoderInput input = FillFrame(kPair, Ids{1, 2, 3}, Ids{4, 5}, {});
  EXPECT_EQ(input.ids, (Ids{100, 1, 2, 3, 101, 4, 5, 101}));
  EXPECT_EQ(input.types, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(input.whole, 8u);
}

TEST(EncoderInput, WithoutKindsThereAreNone) {
  const std::vector<FramePlace> frame = {{7, 0}, {FramePlace::kFirstText, 0}, {8, 0}};
  const EncoderInput input = FillFrame(frame, Ids{1, 2}, Ids{9, 9, 9}, {});
  EXPECT_EQ(input.ids, (Ids{7, 1, 2, 8}));
  EXPECT_TRUE(input.types.empty());
  EXPECT_EQ(input.whole, 4u);
}

TEST(EncoderInput, WhatIsTooLongIsCutAtTheSideThatIsAskedForAndKeepsItsFrame) {
  const std::vector<FramePlace> frame = {{7, 0}, {FramePlace::kFirstText, 0}, {8, 0}};
  const Ids text = {1, 2, 3, 4, 5};
  EXPECT_EQ(FillFrame(frame, text, {}, {.max_tokens = 5}).ids, (Ids{7, 1, 2, 3, 8}));
  EXPECT_EQ(FillFrame(frame, text, {}, {.max_tokens = 5, .cut = CutSide::kLeft}).ids,
            (Ids{7, 3, 4, 5, 8}));
  EXPECT_EQ(FillFrame(frame, text, {}, {.max_tokens = 5}).whole, 7u);
  for (const int limit : {2, 1, 0, -5})
    EXPECT_EQ(FillFrame(frame, text, {}, {.max_tokens = limit}).ids, (Ids{7, 8})) << limit;
  EXPECT_EQ(FillFrame(kPair, text, Ids{6, 7}, {.max_tokens = 8, .cut = CutSide::kLeft}).ids,
            (Ids{100, 3, 4, 5, 101, 6, 7, 101}));
}

// One token after the other from the longer text, of equals from the first.
TEST(EncoderInput, TheLongerTextIsCutFirst) {
  for (size_t first = 0; first < 20; ++first) {
    for (size_t second = 0; second < 20; ++second) {
      for (size_t room = 0; room < 45; ++room) {
        const auto [a, b] = CutLongestFirst(first, second, room);
        ASSERT_LE(a, first);
        ASSERT_LE(b, second);
        ASSERT_EQ(a + b, std::min(first + second, room));
        if (a < first && b < second) {
          ASSERT_LE(a > b ? a - b : b - a, 1u);
        } else if (a < first) {
          ASSERT_GE(a + 1, b);
        } else if (b < second) {
          ASSERT_GE(b + 1, a);
        }
      }
    }
  }
  EXPECT_EQ(CutLongestFirst(10, 3, 8), (std::pair<size_t, size_t>{5, 3}));
  EXPECT_EQ(CutLongestFirst(3, 10, 8), (std::pair<size_t, size_t>{3, 5}));
  EXPECT_EQ(CutLongestFirst(10, 10, 7), (std::pair<size_t, size_t>{3, 4}));
}

TEST(EncoderInput, ATokenizerFramesWhatItReads) {
  const auto tokenizer = *Tokenizer::Create(testing::WordPieceSpec({"hello", "world"}));
  const SpecialIds& ids = tokenizer->vocabulary().special();
  EXPECT_TRUE(tokenizer->reads_pairs());
  EXPECT_EQ(tokenizer->framing_tokens(), 2);
  EXPECT_EQ(tokenizer->pair_framing_tokens(), 3);
  const Ids first = tokenizer->Encode("hello", {.add_special = false});
  const Ids second = tokenizer->Encode("world hello", {.add_special = false});
  EXPECT_EQ(tokenizer->EncodeInput("hello").ids, tokenizer->Encode("hello"));
  Ids pair = {ids.cls};
  pair.insert(pair.end(), first.begin(), first.end());
  pair.push_back(ids.sep);
  pair.insert(pair.end(), second.begin(), second.end());
  pair.push_back(ids.sep);
  const EncoderInput input = tokenizer->EncodePair("hello", "world hello");
  EXPECT_EQ(input.ids, pair);
  ASSERT_EQ(input.types.size(), pair.size());
  EXPECT_EQ(input.types[first.size() + 1], 0);
  EXPECT_EQ(input.types[first.size() + 2], 1);
  EXPECT_EQ(input.types.back(), 1);
}

TEST(EncoderInput, AFrameThatLeavesTheVocabularyOrATextOutIsRefused) {
  for (const std::vector<FramePlace>& pair :
       {std::vector<FramePlace>{{FramePlace::kFirstText, 0}},
        std::vector<FramePlace>{{FramePlace::kFirstText, 0}, {FramePlace::kFirstText, 0}},
        std::vector<FramePlace>{
            {1'000'000, 0}, {FramePlace::kFirstText, 0}, {FramePlace::kSecondText, 0}},
        std::vector<FramePlace>(17, FramePlace{1, 0})}) {
    TokenizerSpec spec = testing::WordPieceSpec({"hello", "world"});
    spec.pair = pair;
    EXPECT_EQ(Tokenizer::Create(std::move(spec)).status().reason(), "tokenizer_invalid");
  }
}

}  // namespace
}  // namespace tutti::tokenizer
