#include "engine/reasoning_budget.h"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

TEST(ReasoningBudget, WithoutALimitNothingIsForced) {
  ReasoningBudget budget;
  for (int i = 0; i < 100; ++i) budget.Take("<think> a");
  EXPECT_EQ(budget.Forced(), kNoToken);
  EXPECT_EQ(budget.Unchecked(), INT_MAX);
}

TEST(ReasoningBudget, ForcesTheCloseWhenSpent) {
  const ReasoningLimit limit{.tokens = 3, .inside = true, .close = {7, 8}};
  ReasoningBudget budget(limit);
  EXPECT_EQ(budget.Unchecked(), 3);
  budget.Take("a");
  budget.Take("b");
  EXPECT_EQ(budget.Forced(), kNoToken);
  EXPECT_EQ(budget.Unchecked(), 1);
  budget.Take("c");
  EXPECT_EQ(budget.Forced(), 7);
  budget.Take("</think>");
  EXPECT_EQ(budget.Forced(), 8);
  budget.Take("\n");
  EXPECT_EQ(budget.Forced(), kNoToken);
  EXPECT_EQ(budget.Unchecked(), INT_MAX);
}

TEST(ReasoningBudget, ACloseOfTheModelsOwnEndsTheCount) {
  const ReasoningLimit limit{.tokens = 3, .inside = true, .close = {7}};
  ReasoningBudget budget(limit);
  budget.Take("a</th");
  budget.Take("ink>");
  EXPECT_EQ(budget.Unchecked(), INT_MAX);
  for (int i = 0; i < 9; ++i) budget.Take("x");
  EXPECT_EQ(budget.Forced(), kNoToken);
}

TEST(ReasoningBudget, CountsFromTheOpeningTagOn) {
  const ReasoningLimit limit{.tokens = 1, .close = {7}};
  ReasoningBudget budget(limit);
  budget.Take("\n<thi");
  budget.Take("nk>");
  EXPECT_EQ(budget.Forced(), kNoToken);
  budget.Take("a");
  EXPECT_EQ(budget.Forced(), 7);
}

// Special tokens stand for tags in the bytes that the grammar sees.
TEST(ReasoningBudget, TagsMayBeOthers) {
  const ReasoningLimit limit{.tokens = 2,
                             .close = {7},
                             .open_tag = "\xff\x81\x82\x83thought\n",
                             .close_tag = "\xff\x81\x82\x84"};
  ReasoningBudget budget(limit);
  budget.Take("\xff\x81\x82\x83");
  budget.Take("thought");
  budget.Take("\n");
  EXPECT_EQ(budget.Unchecked(), 2);
  budget.Take("a");
  EXPECT_EQ(budget.Forced(), kNoToken);
  budget.Take("b");
  EXPECT_EQ(budget.Forced(), 7);
  ReasoningBudget closed(limit);
  for (const char* const token :
       {"\xff\x81\x82\x83", "thought\n", "\xff\x81\x82\x84", "x", "y", "z"})
    closed.Take(token);
  EXPECT_EQ(closed.Forced(), kNoToken);
  ReasoningBudget other(limit);
  other.Take("<think>");
  EXPECT_EQ(other.Unchecked(), INT_MAX) << "text of another family";
}

TEST(ReasoningBudget, ZeroClosesAtOnce) {
  const ReasoningLimit inside{.tokens = 0, .inside = true, .close = {7}};
  EXPECT_EQ(ReasoningBudget(inside).Forced(), 7);
  const ReasoningLimit before{.tokens = 0, .close = {7}};
  ReasoningBudget budget(before);
  EXPECT_EQ(budget.Forced(), kNoToken);
  budget.Take("<think>");
  EXPECT_EQ(budget.Forced(), 7);
}

TEST(ReasoningBudget, AnAnswerWithoutReasoningIsFree) {
  const ReasoningLimit limit{.tokens = 1, .close = {7}};
  ReasoningBudget budget(limit);
  budget.Take("<the");
  EXPECT_EQ(budget.Unchecked(), INT_MAX);
}

}  // namespace
}  // namespace tutti::engine
