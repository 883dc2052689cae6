#include "services/responses/call_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::responses {
namespace {

api::ChatMessage MessageOf(api::Role role, std::string content) {
  return {role, std::move(content), ""};
}

api::ChatMessage Called(const std::string& id, const std::string& name) {
  api::ChatMessage message = MessageOf(api::Role::kAssistant, "");
  message.tool_calls = {{id, name, "{}"}};
  return message;
}

api::ChatMessage Answered(const std::string& id) {
  api::ChatMessage message = MessageOf(api::Role::kTool, "42");
  message.tool_call_id = id;
  return message;
}

TEST(CallStateTest, JoinsCallsToTheMessageBeforeThem) {
  api::Prompt prompt = api::ChatPrompt{
      .messages = {MessageOf(api::Role::kUser, "x"), MessageOf(api::Role::kAssistant, "So:"),
                   Called("call_1", "f"), Called("call_2", "g"), Answered("call_2"),
                   Answered("call_1"), Called("call_3", "f"), Answered("call_3"),
                   MessageOf(api::Role::kAssistant, "done")}};
  std::get<api::ChatPrompt>(prompt).messages[6].reasoning = "hm";
  JoinItems(&prompt);
  const auto& messages = std::get<api::ChatPrompt>(prompt).messages;
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[1].content, "So:");
  ASSERT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].tool_calls[1].id, "call_2");
  EXPECT_EQ(messages[2].tool_call_id, "call_2");
  EXPECT_EQ(messages[3].tool_call_id, "call_1");
  EXPECT_EQ(messages[4].tool_calls.size(), 1u) << "behind results a message of its own";
  EXPECT_EQ(messages[4].reasoning, "hm");
  EXPECT_EQ(messages[6].content, "done");
}

api::ChatMessage Thought(std::string reasoning) {
  api::ChatMessage message = MessageOf(api::Role::kAssistant, "");
  message.reasoning = std::move(reasoning);
  return message;
}

// Each message as role, content, reasoning and ids of calls.
std::string Joined(std::vector<api::ChatMessage> messages) {
  api::Prompt prompt = api::ChatPrompt{.messages = std::move(messages)};
  JoinItems(&prompt);
  std::string joined;
  for (const api::ChatMessage& message : std::get<api::ChatPrompt>(prompt).messages) {
    joined += std::string(1, "suat"[static_cast<int>(message.role)]) + ":" + message.content;
    if (!message.reasoning.empty()) joined += "{" + message.reasoning + "}";
    for (const api::ToolCall& call : message.tool_calls) joined += "@" + call.id;
    joined += " ";
  }
  return joined;
}

TEST(CallStateTest, ReasoningJoinsTheCallBehindIt) {
  using enum api::Role;
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm"), Called("1", "f"), Answered("1"),
                    Thought("so"), Called("2", "g"), Answered("2")}),
            "u:x a:{hm}@1 t:42 a:{so}@2 t:42 ");
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm"), MessageOf(kAssistant, "One moment."),
                    Called("1", "f"), Thought("and"), Called("2", "g"), Answered("1")}),
            "u:x a:One moment.{hm\nand}@1@2 t:42 ");
}

TEST(CallStateTest, ReasoningOfAnAnswerWithoutCallsIsLeftOut) {
  using enum api::Role;
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm"), MessageOf(kAssistant, "So."),
                    MessageOf(kUser, "y")}),
            "u:x a:So. u:y ");
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), MessageOf(kAssistant, "So"), Thought("hm"),
                    MessageOf(kAssistant, " be it."), MessageOf(kUser, "y")}),
            "u:x a:So be it. u:y ")
      << "one answer, as the model wrote it";
}

TEST(CallStateTest, ReasoningWithoutAnAnswerIsAnEmptyOne) {
  using enum api::Role;
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm"), MessageOf(kUser, "y")}), "u:x a: u:y ");
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm"), MessageOf(kAssistant, ""),
                    MessageOf(kUser, "y")}),
            "u:x a: u:y ");
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), MessageOf(kAssistant, "So."), Thought("hm"),
                    MessageOf(kUser, "y")}),
            "u:x a:So. u:y ");
  EXPECT_EQ(Joined({MessageOf(kUser, "x"), Thought("hm")}), "u:x a: ");
}

TEST(CallStateTest, LeavesOtherPromptsAsTheyAre) {
  api::Prompt prompt = api::TextPrompt{.text = "x"};
  JoinItems(&prompt);
  EXPECT_EQ(std::get<api::TextPrompt>(prompt).text, "x");
}

TEST(CallStateTest, AnAnswerIsItsMessagesAndWholeCalls) {
  protocol::ResponseState end;
  end.item_id = "msg_1";
  end.status = protocol::ResponseStatus::kCompleted;
  end.text = "So:";
  end.calls = {{{"call_1", "f", "{}"}, 3}, {{"call_2", "g", "{}"}, 3}};
  std::vector<api::ChatMessage> said = AnswerOf(end);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0].content, "So:");
  end.reasoning = {{"hm", 3, 1}};
  said = AnswerOf(end);
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[2].reasoning, "hm");
  EXPECT_EQ(said[2].content, "");
  end.reasoning.clear();
  said = AnswerOf(end);
  EXPECT_EQ(said[2].tool_calls, std::vector<api::ToolCall>({{"call_2", "g", "{}"}}));
  end.status = protocol::ResponseStatus::kIncomplete;
  end.calls[1].call.arguments = "{";
  EXPECT_EQ(AnswerOf(end).size(), 2u) << "a call that was cut short is left out";
  end.calls.clear();
  end.text.clear();
  EXPECT_EQ(AnswerOf(end).size(), 1u) << "an empty answer";
}

// Each response had a seed of its own, so that no two of them were equal to a cache of answers.
TEST(SettleSeed, OnlyWhatDrawsHasOneAndNobodyElseHas) {
  api::GenerateRequest greedy, drawn, named;
  greedy.sampling.temperature = 0;
  named.sampling.seed = 7;
  for (api::GenerateRequest* request : {&greedy, &drawn, &named}) SettleSeed(request);
  EXPECT_FALSE(greedy.sampling.seed.has_value());
  EXPECT_FALSE(greedy.cache.no_store);
  EXPECT_TRUE(drawn.sampling.seed.has_value());
  EXPECT_TRUE(drawn.cache.no_store);
  EXPECT_EQ(named.sampling.seed, 7);
  EXPECT_FALSE(named.cache.no_store);
}

}  // namespace
}  // namespace tutti::responses
