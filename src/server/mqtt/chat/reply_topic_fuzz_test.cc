// 10,000 messages with Response Topics, most of them of other users: nothing is published outside
// the publisher's own topics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "protocol/chat/topic.h"
#include "protocol/json/json_writer.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

constexpr int kCases = 10'000;
constexpr int kAtOnce = 100;

class ReplyTopicFuzzTest : public testing::ProfileFixture {
 protected:
  ReplyTopicFuzzTest() {
    for (const char* const name : {"driving", "general"}) {
      ProjectSettings project;
      project.name = name;
      profile_options_.projects.push_back(project);
    }
  }

  template <size_t N>
  const char* One(const std::array<const char*, N>& words) {
    return words[random_.Next() % N];
  }
  // A topic that a hostile client might send.
  std::string Hostile(const std::string& own) {
    static constexpr std::array<const char*, 24> kLevels = {
        "llm",      "v1",      "alice",   "bob",
        "s",        "other",   "out",     "in",
        "ctl",      "status",  "server",  "jobs",
        "+",        "#",       "",        "..",
        "$share",   "driving", "general", "assistant_response",
        "\xC3\xA9", "\x01",    "a b",     "alice\xE2\x80\xAE"};
    std::string topic = random_.Next() % 2 == 0 ? own : std::string(One(kLevels));
    const uint64_t more = random_.Next() % 5;
    for (uint64_t i = 0; i < more; ++i) {
      if (random_.Next() % 8 != 0) topic += "/";
      topic += One(kLevels);
    }
    if (random_.Next() % 6 == 0 && !topic.empty()) {  // one byte is another
      topic[random_.Next() % topic.size()] = static_cast<char>(random_.Next() % 256);
    }
    if (random_.Next() % 50 == 0) topic += std::string(600, 'x');
    return topic;
  }
  static std::string Quoted(const std::string& text) {
    std::string out;
    protocol::AppendJsonString(text, &out);
    return out;
  }
  bool IsOf(const std::string& topic, const std::string& own) const {
    return topic == own || topic.starts_with(own + "/");
  }

  Random random_{20260101};
};

TEST_F(ReplyTopicFuzzTest, OfTheNativeProfileNothingLeavesTheUsersOwn) {
  int answered = 0;
  for (int i = 0; i < kCases; i += kAtOnce) {
    const std::string user = i / kAtOnce % 2 == 0 ? "alice" : "bob";
    for (int k = 0; k < kAtOnce; ++k) {
      Message message;
      message.qos = 1;
      const bool says = random_.Next() % 50 == 0;
      message.topic = Topic(says ? "in" : "ctl", "s", user);
      message.payload =
          says ? MessageJson("hi", "m" + std::to_string(i + k)) : R"({"type":"ping"})";
      message.response_topic = Hostile("llm/v1/" + user);
      port_.Deliver(message);
    }
    StepAll();
    for (const testing::Sent& each : port_.sent()) {
      ++answered;
      ASSERT_TRUE(each.message.topic.starts_with("llm/v1/" + user + "/")) << each.message.topic;
      ASSERT_TRUE(protocol::IsTopicName(each.message.topic)) << each.message.topic;
      const auto channel = protocol::ParseNativeTopic(each.message.topic);
      ASSERT_TRUE(!channel.has_value() || channel->channel == protocol::NativeChannel::kOut)
          << "the server would speak to itself: " << each.message.topic;
    }
    port_.Forget();
  }
  EXPECT_GE(answered, kCases);
}

TEST_F(ReplyTopicFuzzTest, OfTheProjectProfileNothingLeavesTheSessionsOwn) {
  int answered = 0;
  for (int i = 0; i < kCases; i += kAtOnce) {
    const std::string session = "s" + std::to_string(i / kAtOnce % 5);
    for (int k = 0; k < kAtOnce; ++k) {
      const std::string own = "driving/assistant_response/" + session;
      Message message;
      message.qos = 1;
      message.topic = "driving/user_input";
      // Most are blank, which is an error and cheap; it goes where an answer would.
      message.payload = R"({"sessionId":")" + session + R"(","message":)" +
                        (random_.Next() % 100 == 0 ? R"("hi")" : R"(" ")");
      if (random_.Next() % 2 == 0) message.payload += ",\"replyTopic\":" + Quoted(Hostile(own));
      if (random_.Next() % 3 == 0) message.payload += ",\"clientId\":" + Quoted(Hostile("c"));
      if (random_.Next() % 3 == 0) message.payload += ",\"requestId\":" + Quoted(Hostile("r"));
      message.payload += "}";
      if (random_.Next() % 2 == 0) message.response_topic = Hostile(own);
      port_.Deliver(message);
    }
    StepAll();
    for (const testing::Sent& each : port_.sent()) {
      ++answered;
      const std::string& topic = each.message.topic;
      ASSERT_TRUE(IsOf(topic, "driving/assistant_response/" + session)) << topic;
      ASSERT_TRUE(IsTopicName(topic)) << topic;
    }
    port_.Forget();
  }
  EXPECT_GE(answered, kCases * 9 / 10);
}

}  // namespace
}  // namespace tutti::mqtt::chat
