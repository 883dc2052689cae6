#include <gtest/gtest.h>

#include <vector>

#include "services/sessions/turn_prompt.h"

namespace tutti::sessions {
namespace {

TEST(FitContext, WhatFitsStaysWhole) {
  const std::vector<int> turns(10, 100);
  const auto cut = FitContext({.limit = 1100}, turns, 0, 100);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->first, 0u);
  EXPECT_EQ(cut->dropped, 0u);
}

TEST(FitContext, ACutTakesAQuarterOfTheWindowAtOnce) {
  const std::vector<int> turns(10, 100);
  const auto cut = FitContext({.limit = 1000}, turns, 0, 100);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->dropped, 4u) << "1,100 tokens, to be 750 at most";
  EXPECT_EQ(cut->first, 4u);
}

TEST(FitContext, AChatOfAHundredTurnsNeverExceedsItsWindowAndIsCutRarely) {
  std::vector<int> turns;
  size_t first = 0, cuts = 0, dropped = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const int asked = 40 + turn % 30;
    const auto cut = FitContext({}, turns, first, 120 + asked);
    ASSERT_TRUE(cut.ok());
    EXPECT_EQ(cut->dropped, cut->first - first);
    cuts += cut->dropped > 0;
    dropped += cut->dropped;
    first = cut->first;
    int tokens = 120 + asked;
    for (size_t i = first; i < turns.size(); ++i) tokens += turns[i];
    EXPECT_LE(tokens, 3000);
    turns.push_back(asked + 60);
  }
  EXPECT_EQ(first, dropped);
  // 100 turns of 114 tokens, 750 at least in a cut.
  EXPECT_GE(cuts, 5u);
  EXPECT_LE(cuts, 12u);
}

TEST(FitContext, WhatCannotBeLeftOutAndDoesNotFitIsRefusedWithTheNumbers) {
  const std::vector<int> turns = {10, 10};
  const Status refused = FitContext({.limit = 100}, turns, 0, 101).status();
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.excess(), (Status::Excess{101, 100}));
  const auto all = FitContext({.limit = 100}, turns, 0, 100);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->first, 2u);
}

TEST(FitContext, WithoutTruncationADialogThatDoesNotFitIsRefused) {
  const std::vector<int> turns(10, 100);
  const Status refused = FitContext({.limit = 1000, .truncate = false}, turns, 0, 100).status();
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.excess(), (Status::Excess{1100, 1000}));
  EXPECT_TRUE(FitContext({.limit = 1100, .truncate = false}, turns, 0, 100).ok());
}

}  // namespace
}  // namespace tutti::sessions
