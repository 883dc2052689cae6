#include <gtest/gtest.h>

#include <vector>

#include "engine/draft_sources.h"

namespace tutti::engine {
namespace {

// The draft tokens after `text`, extended by earlier draft tokens as the text goes on.
std::vector<TokenId> Proposed(const PromptLookup& lookup, std::vector<TokenId> text, int count) {
  std::vector<TokenId> out;
  if (lookup.source() < 0) return out;
  for (int i = 0; i < count; ++i) {
    out.push_back(text[static_cast<size_t>(lookup.source() + i)]);
    text.push_back(out.back());
  }
  return out;
}

TEST(PromptLookup, ProposesWhatFollowedTheLastTokensInThePrompt) {
  PromptLookup lookup;
  const std::vector<TokenId> text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  lookup.Begin(64, text);
  EXPECT_EQ(lookup.agreed(), 3);
  EXPECT_EQ(Proposed(lookup, text, 4), (std::vector<TokenId>{4, 5, 6, 7}));
}

TEST(PromptLookup, PrefersTheLatestPlaceAndTheLongerMatch) {
  PromptLookup lookup;
  // The triple 1 2 3 once, the pair 2 3 later: the triple is the surer.
  std::vector<TokenId> text = {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  lookup.Begin(64, text);
  EXPECT_EQ(Proposed(lookup, text, 1), std::vector<TokenId>{4});
  PromptLookup latest;
  text = {1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3};
  latest.Begin(64, text);
  EXPECT_EQ(Proposed(latest, text, 1), std::vector<TokenId>{5});
}

TEST(PromptLookup, FollowsAPlaceAsLongAsItProvesRightAndCountsIt) {
  PromptLookup lookup;
  AcceptanceStats everybody;
  std::vector<TokenId> text = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2};
  lookup.Begin(64, text);
  const double before = lookup.hits().Chance(2, everybody);
  for (const TokenId token : {3, 4, 5}) {
    text.push_back(token);
    lookup.Advance(text, everybody);
  }
  EXPECT_EQ(lookup.source(), 5);
  EXPECT_EQ(lookup.agreed(), 5);
  EXPECT_GT(lookup.hits().Chance(2, everybody), before);
  text.push_back(20);  // not 6
  lookup.Advance(text, everybody);
  EXPECT_EQ(lookup.source(), -1);
}

TEST(PromptLookup, ATextThatRunsInACircleIsProposedBeyondItsEnd) {
  PromptLookup lookup;
  const std::vector<TokenId> text = {4, 4, 4, 4};
  lookup.Begin(64, text);
  EXPECT_EQ(Proposed(lookup, text, 5), (std::vector<TokenId>{4, 4, 4, 4, 4}));
  PromptLookup pair;
  const std::vector<TokenId> circle = {9, 1, 2, 1, 2};
  pair.Begin(64, circle);
  EXPECT_EQ(Proposed(pair, circle, 5), (std::vector<TokenId>{1, 2, 1, 2, 1}));
}

TEST(PromptLookup, FindsNothingInWhatIsNewTooShortOrWasNotBegun) {
  PromptLookup lookup;
  AcceptanceStats everybody;
  const std::vector<TokenId> text = {1, 2, 3, 4, 5, 6};
  lookup.Advance(text, everybody);
  EXPECT_EQ(lookup.source(), -1);
  lookup.Begin(64, text);
  EXPECT_EQ(lookup.source(), -1);
  PromptLookup shorter;
  shorter.Begin(8, std::vector<TokenId>{3});
  EXPECT_EQ(shorter.source(), -1);
}

// The result is equal for tokens read one by one and many at once: a step may add several.
TEST(PromptLookup, DoesNotDependOnHowManyTokensCameAtOnce) {
  std::vector<TokenId> text;
  uint32_t x = 7;
  for (int i = 0; i < 5000; ++i) {
    x = x * 1664525U + 1013904223U;
    text.push_back(static_cast<TokenId>(x >> 28));
  }
  PromptLookup one, many;
  AcceptanceStats hits_of_one, hits_of_many;
  const std::span<const TokenId> all(text);
  one.Begin(6000, all.first(10));
  many.Begin(6000, all.first(10));
  int found = 0;
  for (size_t size = 10; size + 7 <= text.size(); size += 7) {
    for (size_t i = 1; i <= 7; ++i) one.Advance(all.first(size + i), hits_of_one);
    many.Advance(all.first(size + 7), hits_of_many);
    ASSERT_EQ(one.source(), many.source()) << size;
    ASSERT_EQ(one.agreed(), many.agreed()) << size;
    if (one.source() < 0) continue;
    ++found;
    ASSERT_LT(one.source(), static_cast<int>(size + 7));
    // The tokens before the source equal the end of the text.
    for (int i = 1; i <= std::min(one.agreed(), 2); ++i)
      ASSERT_EQ(text[static_cast<size_t>(one.source() - i)],
                text[size + 7 - static_cast<size_t>(i)]);
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace tutti::engine
