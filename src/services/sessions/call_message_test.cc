#include <gtest/gtest.h>

#include "services/responses/call_state.h"
#include "services/sessions/message.h"

namespace tutti::sessions {
namespace {

protocol::ResponsesCall CallWith(bool truncate, const std::string& policy) {
  protocol::ResponsesCall call;
  call.message_id = "m-1";
  call.input = {{api::Role::kUser, "hi"}};
  call.instructions = "Be brief.";
  call.policy = policy;
  call.truncate = truncate;
  call.request.sampling.max_tokens = 20;
  return call;
}

Message MessageWith(bool truncate, const std::string& policy) {
  const protocol::ResponsesCall call = CallWith(truncate, policy);
  return MessageOf(call, responses::SkeletonOf(call, "m", "conv_1"));
}

// Regression: over HTTP a dialog was cut to the service's window although its call forbids it.
TEST(CallMessageTest, ADialogIsCutOnlyWhereItsCallSaysSo) {
  EXPECT_FALSE(MessageWith(true, "").window.has_value()) << "the service's own";
  const Message whole = MessageWith(false, "");
  ASSERT_TRUE(whole.window.has_value());
  EXPECT_FALSE(whole.window->truncate);
  EXPECT_GT(whole.window->limit, 1 << 20);
  EXPECT_EQ(whole.state.truncation, "disabled");
  EXPECT_EQ(MessageWith(true, "").state.truncation, "auto");
}

// Regression: a chat of a model with a long context was cut to the service's 3,000 tokens, and its
// client could not ask for more.
TEST(CallMessageTest, TheCallLimitsItsPromptWithOrWithoutTruncation) {
  for (const bool truncate : {true, false}) {
    protocol::ResponsesCall call = CallWith(truncate, "");
    call.max_prompt_tokens = 30'000;
    const Message message = MessageOf(call, responses::SkeletonOf(call, "m", "conv_1"));
    ASSERT_TRUE(message.window.has_value());
    EXPECT_EQ(message.window->limit, 30'000);
    EXPECT_EQ(message.window->truncate, truncate);
  }
}

TEST(CallMessageTest, WhatTheCallSaysIsInTheMessageAndTheSkeleton) {
  const Message message = MessageWith(false, "rollback");
  EXPECT_EQ(message.id, "m-1");
  ASSERT_EQ(message.input.size(), 1u);
  EXPECT_EQ(message.input[0].content, "hi");
  EXPECT_EQ(message.system_prompt, "Be brief.");
  EXPECT_EQ(message.policy, BusyPolicy::kRollback);
  EXPECT_EQ(message.state.conversation, "conv_1");
  EXPECT_EQ(message.state.model, "m");
  EXPECT_EQ(message.state.max_output_tokens, 20);
}

TEST(CallMessageTest, EveryPolicyHasItsWord) {
  EXPECT_EQ(MessageWith(true, "").policy, BusyPolicy::kEnqueue);
  EXPECT_EQ(MessageWith(true, "enqueue").policy, BusyPolicy::kEnqueue);
  EXPECT_EQ(MessageWith(true, "reject").policy, BusyPolicy::kReject);
  EXPECT_EQ(MessageWith(true, "interrupt").policy, BusyPolicy::kInterrupt);
  EXPECT_EQ(MessageWith(true, "steer").policy, BusyPolicy::kSteer);
}

}  // namespace
}  // namespace tutti::sessions
