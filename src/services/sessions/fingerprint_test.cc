#include <gtest/gtest.h>

#include <set>

#include "services/sessions/message.h"

namespace tutti::sessions {
namespace {

Message MessageOf(std::vector<api::ChatMessage> input, std::optional<std::string> system = {}) {
  Message message;
  message.input = std::move(input);
  message.system_prompt = std::move(system);
  return message;
}

TEST(FingerprintTest, EveryMessageThatSaysSomethingElseHasAnother) {
  using enum api::Role;
  const std::set<int64_t> all = {
      FingerprintOf(MessageOf({{kUser, "ab", ""}})),
      FingerprintOf(MessageOf({{kUser, "ab", ""}}, "")),
      FingerprintOf(MessageOf({{kUser, "ab", ""}}, "system")),
      FingerprintOf(MessageOf({{kSystem, "ab", ""}})),
      FingerprintOf(MessageOf({{kUser, "a", ""}, {kUser, "b", ""}})),
      FingerprintOf(MessageOf({{kUser, "", ""}, {kUser, "ab", ""}})),
      FingerprintOf(MessageOf({{kUser, "ab ", ""}})),
      FingerprintOf(MessageOf({{kUser, std::string("ab\0", 3), ""}})),
  };
  EXPECT_EQ(all.size(), 8u);
}

TEST(FingerprintTest, CallsOutputsAndReasoningAreInIt) {
  api::ChatMessage call{api::Role::kAssistant, "", ""}, output{api::Role::kTool, "42", ""};
  call.tool_calls = {{"call_1", "f", "{}"}};
  output.tool_call_id = "call_1";
  const auto changed = [](api::ChatMessage message, auto change) {
    change(&message);
    return FingerprintOf(MessageOf({std::move(message)}));
  };
  const std::set<int64_t> all = {
      FingerprintOf(MessageOf({call})),
      changed(call, [](auto* message) { message->tool_calls.clear(); }),
      changed(call, [](auto* message) { message->tool_calls[0].id = "call_2"; }),
      changed(call, [](auto* message) { message->tool_calls[0].name = "g"; }),
      changed(call, [](auto* message) { message->tool_calls[0].arguments = "{ }"; }),
      FingerprintOf(MessageOf({output})),
      changed(output, [](auto* message) { message->tool_call_id = "call_2"; }),
      changed(call, [](auto* message) { message->reasoning = "hm"; }),
  };
  EXPECT_EQ(all.size(), 8u);
}

TEST(FingerprintTest, HowAMessageIsToBeAnsweredIsNotInIt) {
  const Message once = MessageOf({{api::Role::kUser, "ab", ""}});
  Message again = once;
  again.request.model = again.state.model = "another";
  again.request.sampling.seed = 7;
  again.reply_to = "elsewhere";
  again.policy = BusyPolicy::kInterrupt;
  again.expected_version = 3;
  EXPECT_EQ(FingerprintOf(again), FingerprintOf(once));
}

// A store holds them: another function would refuse what is the same.
TEST(FingerprintTest, ItIsTheSameInEveryProcess) {
  EXPECT_EQ(FingerprintOf(MessageOf({{api::Role::kUser, "What is the sea?", ""}}, "Be brief.")),
            -7328660418055290710);
}

TEST(FingerprintTest, OneOfBeforeTheyWereStoredIsTakenForTheSame) {
  const Message message = MessageOf({{api::Role::kUser, "a", ""}});
  EXPECT_TRUE(CheckSame(0, message).ok());
  EXPECT_TRUE(CheckSame(FingerprintOf(message), message).ok());
  EXPECT_EQ(CheckSame(FingerprintOf(message) + 1, message).reason(), "idempotency_key_mismatch");
}

}  // namespace
}  // namespace tutti::sessions
