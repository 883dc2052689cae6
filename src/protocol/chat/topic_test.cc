#include "protocol/chat/topic.h"

#include <gtest/gtest.h>

#include <string>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

std::string Levels(size_t count) {
  std::string topic = "l";
  for (size_t i = 1; i < count; ++i) topic += "/l";
  return topic;
}

TEST(TopicLevel, IsLettersDigitsAndThreeSigns) {
  for (const char* name : {"a", "Z", "0", "_", ".", "-", "a.b-c_D9", ".."})
    EXPECT_TRUE(IsTopicLevel(name)) << name;
  for (const char* name : {"", " ", "a b", "a/b", "+", "#", "$sys", "\xC3\xA9", "a\n", "a:b", "a%"})
    EXPECT_FALSE(IsTopicLevel(name)) << name;
  EXPECT_FALSE(IsTopicLevel(std::string_view("a\0b", 3)));
}

TEST(TopicName, IsBoundedInLevelsAndBytes) {
  EXPECT_TRUE(IsTopicName(Levels(16)));
  EXPECT_FALSE(IsTopicName(Levels(17)));
  EXPECT_TRUE(IsTopicName(std::string(512, 'a')));
  EXPECT_FALSE(IsTopicName(std::string(513, 'a')));
  for (const char* topic : {"", "/a", "a/", "a//b", "a/+/b", "a/#"})
    EXPECT_FALSE(IsTopicName(topic)) << topic;
}

TEST(NativeTopic, ComesBackAsItWasBuilt) {
  for (const auto channel : {NativeChannel::kIn, NativeChannel::kCtl, NativeChannel::kOut}) {
    const NativeTopic topic{"anna", "s.1", channel};
    EXPECT_EQ(ParseNativeTopic(BuildNativeTopic(topic)), topic);
  }
  EXPECT_EQ(BuildNativeTopic({"anna", "s1", NativeChannel::kOut}), "llm/v1/anna/s1/out");
}

TEST(NativeTopic, OtherTopicsAreNone) {
  for (const char* topic :
       {"llm/v1/anna/s1", "llm/v1/anna/s1/in/x", "llm/v1/anna/s1/IN", "llm/v1/anna//in",
        "llm/v1//s1/in", "llm/v2/anna/s1/in", "llm/v1/anna/s1/status", "xllm/v1/anna/s1/in",
        "llm/v1/an+na/s1/in", "llm/v1/anna/#/in", "llm/v1/anna/s1/in/", "/llm/v1/anna/s1/in", "",
        "llm/v1/server/node/in", "llm/v1/jobs/pool/in", "llm/v1/anna/s 1/in"}) {
    EXPECT_FALSE(ParseNativeTopic(topic).has_value()) << topic;
  }
}

TEST(ResponseTopic, OnesOwnIsAllowed) {
  for (const char* topic : {"llm/v1/anna/s1/out", "llm/v1/anna/replies", "llm/v1/anna/a/b/c/d",
                            "llm/v1/anna/s1/inbox", "llm/v1/anna/in"}) {
    EXPECT_TRUE(CheckResponseTopic("anna", topic).ok()) << topic;
  }
}

TEST(ResponseTopic, ThatOfOthersIsRefused) {
  for (const char* topic :
       {"llm/v1/anna", "llm/v1/annax/s/out", "llm/v1/ann/s/out", "llm/v1/server/n/status", "other",
        "llm/v1/bert/s1/in", "llm/v2/anna/s1/out", "x/llm/v1/anna/s1/out", "llm/v1/jobs/pool"}) {
    const Status status = CheckResponseTopic("anna", topic);
    EXPECT_EQ(status.reason(), "insufficient_scope") << topic;
    EXPECT_EQ(ViewError(status).http, 403);
  }
  for (const char* user : {"server", "jobs", "", "an/na", "+"}) {
    const std::string topic = "llm/v1/" + std::string(user) + "/x";
    EXPECT_FALSE(CheckResponseTopic(user, topic).ok()) << user;
  }
}

TEST(ResponseTopic, WildcardsAndOtherThanNamesAreRefused) {
  for (const std::string& topic :
       {std::string("llm/v1/anna/#"), std::string("llm/v1/anna/+/out"), std::string("llm/v1/anna/"),
        std::string("llm/v1/anna/a//b"), std::string("llm/v1/anna/a b"), std::string(),
        "llm/v1/anna/" + std::string(512, 'a'), "llm/v1/anna/" + Levels(14),
        std::string("llm/v1/anna/a\0b", 15), std::string("llm/v1/anna/\xC3\xA9")}) {
    EXPECT_EQ(CheckResponseTopic("anna", topic).reason(), "invalid_value") << topic;
  }
}

// The server would answer its own answers.
TEST(ResponseTopic, TheChannelsThatAClientSpeaksOnAreRefused) {
  for (const char* topic : {"llm/v1/anna/s1/in", "llm/v1/anna/s2/ctl", "llm/v1/anna/status"})
    EXPECT_EQ(CheckResponseTopic("anna", topic).reason(), "invalid_value") << topic;
}

}  // namespace
}  // namespace tutti::protocol
