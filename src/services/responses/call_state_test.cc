#include "services/responses/call_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::responses {
namespace {

api::ChatMessage Said(api::Role role, std::string content) {
  return {role, std::move(content), ""};
}

api::ChatMessage Called(const std::string& id, const std::string& name) {
  api::ChatMessage message = Said(api::Role::kAssistant, "");
  message.tool_calls = {{id, name, "{}"}};
  return message;
}

api::ChatMessage Answered(const std::string& id) {
  api::ChatMessage message = Said(api::Role::kTool, "42");
  message.tool_call_id = id;
  return message;
}

TEST(CallStateTest, JoinsCallsToTheMessageBeforeThem) {
  api::Prompt prompt =
      api::ChatPrompt{.messages = {Said(api::Role::kUser, "x"), Said(api::Role::kAssistant, "So:"),
                                   Called("call_1", "f"), Called("call_2", "g"), Answered("call_2"),
                                   Answered("call_1"), Called("call_3", "f"), Answered("call_3"),
                                   Said(api::Role::kAssistant, "done")}};
  std::get<api::ChatPrompt>(prompt).messages[6].reasoning = "hm";
  JoinCalls(&prompt);
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

TEST(CallStateTest, LeavesOtherPromptsAsTheyAre) {
  api::Prompt prompt = api::TextPrompt{.text = "x"};
  JoinCalls(&prompt);
  EXPECT_EQ(std::get<api::TextPrompt>(prompt).text, "x");
}

TEST(CallStateTest, AnAnswerIsItsMessagesAndWholeCalls) {
  wire::ResponseState end;
  end.item_id = "msg_1";
  end.status = wire::ResponseStatus::kCompleted;
  end.text = "So:";
  end.calls = {{{"call_1", "f", "{}"}, 3}, {{"call_2", "g", "{}"}, 3}};
  std::vector<api::ChatMessage> said = AnswerOf(end);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0].content, "So:");
  EXPECT_EQ(said[2].tool_calls, std::vector<api::ToolCall>({{"call_2", "g", "{}"}}));
  end.status = wire::ResponseStatus::kIncomplete;
  end.calls[1].call.arguments = "{";
  EXPECT_EQ(AnswerOf(end).size(), 2u) << "a call that was cut short is left out";
  end.calls.clear();
  end.text.clear();
  EXPECT_EQ(AnswerOf(end).size(), 1u) << "an empty answer";
}

}  // namespace
}  // namespace tutti::responses
