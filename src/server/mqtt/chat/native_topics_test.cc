#include <gtest/gtest.h>

#include "server/mqtt/chat/topics.h"

namespace tutti::mqtt::chat {
namespace {

NativeTopics Topics(const std::string& prefix = "house/ai") { return *NativeTopics::Make(prefix); }

TEST(NativeTopicsTest, TopicsAreReadAndMadeBelowThePrefixOnly) {
  const NativeTopics topics = Topics();
  const auto topic = topics.Parse("house/ai/alice/s1/in");
  ASSERT_TRUE(topic.has_value());
  EXPECT_EQ(topic->user, "alice");
  EXPECT_EQ(topic->session, "s1");
  EXPECT_EQ(topic->channel, protocol::NativeChannel::kIn);
  EXPECT_EQ(topics.Out("alice", "s1"), "house/ai/alice/s1/out");
  EXPECT_EQ(topics.ServerStatus("n"), "house/ai/server/n/status");
  for (const char* const other :
       {"llm/v1/alice/s1/in", "house/ai", "house/ai/", "house/aix/alice/s1/in", "house/ai/alice/in",
        "house/ai/server/s/in", "house/ai/jobs/s/in", "house/ai/al ice/s/in", "house/ai/+/s/in"}) {
    EXPECT_FALSE(topics.Parse(other).has_value()) << other;
  }
}

TEST(NativeTopicsTest, AClientsStatusTellsWhose) {
  EXPECT_EQ(Topics().ClientOf("house/ai/alice/status"), "alice");
  for (const char* const other : {"house/ai/status", "house/ai//status", "house/ai/a/b/status",
                                  "llm/v1/alice/status", "house/ai/alice/state"}) {
    EXPECT_EQ(Topics().ClientOf(other), std::nullopt) << other;
  }
}

TEST(NativeTopicsTest, AnAnswerStaysWithItsUserWhateverThePrefix) {
  const NativeTopics topics = Topics();
  EXPECT_TRUE(topics.CheckResponse("alice", "house/ai/alice/s/out").ok());
  EXPECT_TRUE(topics.CheckResponse("alice", "house/ai/alice/inbox").ok());
  EXPECT_EQ(topics.CheckResponse("alice", "house/ai/bob/s/out").reason(), "insufficient_scope");
  EXPECT_EQ(topics.CheckResponse("alice", "llm/v1/alice/s/out").reason(), "insufficient_scope");
  EXPECT_EQ(topics.CheckResponse("alice", "house/ai/alice").reason(), "insufficient_scope");
  EXPECT_EQ(topics.CheckResponse("alice", "house/ai/alice/s/in").reason(), "invalid_value");
  EXPECT_EQ(topics.CheckResponse("alice", "house/ai/alice/#").reason(), "invalid_value");
  EXPECT_EQ(topics.CheckResponse("alice", "house/ai/alice/status").reason(), "invalid_value");
}

TEST(NativeAddressTest, TheTopicIsTheUserUnlessSomebodyElseIsKnownToHavePublished) {
  Message message;
  message.topic = "house/ai/alice/s/in";
  const Result<NativeAddress> behind_a_broker = AddressOf(Topics(), message, "house");
  ASSERT_TRUE(behind_a_broker.ok());
  EXPECT_EQ(behind_a_broker->user, "alice");
  EXPECT_EQ(behind_a_broker->tenant, "house");
  EXPECT_EQ(behind_a_broker->reply_topic, "house/ai/alice/s/out");
  message.user = "alice";
  message.tenant = "acme";
  EXPECT_EQ(AddressOf(Topics(), message, "house")->tenant, "acme");
  message.user = "bob";
  EXPECT_EQ(AddressOf(Topics(), message, "house").status().reason(), "insufficient_scope");
}

TEST(NativeAddressTest, WhatIsRefusedIsAnsweredOnTheOrdinaryTopic) {
  Message message;
  message.topic = "house/ai/alice/s/in";
  message.response_topic = "house/ai/bob/s/out";
  message.correlation_data = "c";
  Result<NativeAddress> address = AddressOf(Topics(), message, "");
  EXPECT_FALSE(address->refused.ok());
  EXPECT_EQ(address->reply_topic, "house/ai/alice/s/out");
  EXPECT_EQ(address->correlation, "c");
  message.response_topic = "";
  message.correlation_data = std::string(5000, 'c');
  address = AddressOf(Topics(), message, "");
  EXPECT_EQ(address->refused.reason(), "invalid_value");
  EXPECT_FALSE(address->correlation.has_value()) << "it would be repeated";
}

}  // namespace
}  // namespace tutti::mqtt::chat
