#include "services/sessions/turn_prompt.h"

#include <gtest/gtest.h>

namespace tutti::sessions {
namespace {

// Turns of two items of ten tokens each, at these places.
std::vector<Item> Turns(const std::vector<int64_t>& places) {
  std::vector<Item> items;
  for (const int64_t place : places) {
    const std::string n = std::to_string(place);
    items.push_back({.turn = place,
                     .role = api::Role::kUser,
                     .content = "u" + n,
                     .tokens = 10,
                     .place = place});
    items.push_back({.turn = place,
                     .role = api::Role::kAssistant,
                     .content = "a" + n,
                     .tokens = 10,
                     .place = place});
  }
  return items;
}

std::string Text(const TurnPrompt& built) {
  std::string text;
  for (const api::ChatMessage& message : built.prompt.messages) text += message.content + " ";
  return text;
}

const std::vector<api::ChatMessage> kInput = {{api::Role::kUser, "new", ""}};

TEST(TurnPromptTest, WhatFitsGoesInWhole) {
  const auto built = BuildPrompt({.limit = 100}, "system", Turns({1, 2}), 1, kInput, 60);
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(Text(*built), "system u1 a1 u2 a2 new ");
  EXPECT_EQ(built->first_place, 1);
  EXPECT_EQ(built->dropped_turns, 0);
  EXPECT_TRUE(built->prompt.add_generation_prompt);
}

TEST(TurnPromptTest, CallsGoInUnlessTheyWereCutShort) {
  std::vector<Item> items = Turns({1, 2});
  items[1].content = "";
  items[1].call = api::ToolCall{"call_1", "f", "{}"};
  items[3].call = api::ToolCall{"call_2", "f", "{"};
  items[3].incomplete = true;
  const auto built = BuildPrompt({.limit = 100}, "", items, 1, kInput, 10);
  ASSERT_TRUE(built.ok());
  const auto& messages = built->prompt.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].tool_calls, std::vector<api::ToolCall>({{"call_1", "f", "{}"}}));
  EXPECT_EQ(messages[2].content, "u2");
  EXPECT_EQ(messages[3].content, "new");
}

TEST(TurnPromptTest, WholeTurnsAreDroppedAndStayDropped) {
  auto built = BuildPrompt({.limit = 100}, "", Turns({1, 3, 4, 7}), 1, kInput, 30);
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(Text(*built), "u4 a4 u7 a7 new ") << "down to three quarters";
  EXPECT_EQ(built->first_place, 4);
  EXPECT_EQ(built->dropped_turns, 2);
  EXPECT_EQ(built->dropped_items, 4);
  built = BuildPrompt({.limit = 100}, "", Turns({1, 3, 4, 7}), 4, kInput, 30);
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(built->first_place, 4);
  EXPECT_EQ(built->dropped_turns, 0);
}

TEST(TurnPromptTest, WhereNothingFitsBesideTheMessageAllTurnsAreDropped) {
  const auto built = BuildPrompt({.limit = 100}, "", Turns({1, 2}), 1, kInput, 90);
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(Text(*built), "new ");
  EXPECT_EQ(built->first_place, 3) << "the next turn's";
  EXPECT_EQ(BuildPrompt({.limit = 100}, "", {}, 1, kInput, 101).status().reason(),
            "context_length_exceeded");
}

}  // namespace
}  // namespace tutti::sessions
