// User scenarios on a slow model: two sessions together, one in order, ten at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;
using testing::Event;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Property;

constexpr Duration kStep = milliseconds(100);

class ScenariosTest : public testing::ProfileFixture {
 protected:
  ScenariosTest() {
    for (const char* const name : {"driving", "general"}) {
      ProjectSettings project;
      project.name = name;
      project.reply_format = ReplyFormat::kJson;
      profile_options_.projects.push_back(project);
    }
  }
  void Start() override {
    ProfileFixture::Start();
    // An answer takes one step per word.
    inference_->script = [this](const api::GenerateRequest& request) {
      const auto& chat = std::get<api::ChatPrompt>(request.prompt);
      responses::testing::Script script;
      const int words =
          words_.contains(chat.messages.back().content) ? words_[chat.messages.back().content] : 35;
      for (int i = 0; i < words; ++i) script.pieces.push_back("w ");
      script.pieces.push_back("to " + chat.messages.back().content);
      return script;
    };
  }
  void SendMessage(const std::string& project, const std::string& session, const std::string& text,
                   const std::string& id) {
    Deliver(project + "/user_input", R"({"sessionId":")" + session + R"(","message":")" + text +
                                         R"(","requestId":")" + id + R"("})");
  }
  // Steps of the model until it has nothing to do.
  void Run() {
    Settle();
    while (inference_->active() > 0) {
      Advance(kStep);
      inference_->Step();
      Settle();
    }
  }
  std::vector<testing::Sent> Replies(const std::string& project, const std::string& session) {
    return port_.sent(project + "/assistant_response/" + session);
  }

  std::map<std::string, int> words_;  // of the answer to a message
};

TEST_F(ScenariosTest, TwoSessionsInTwoProjectsAreServedTogether) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::string session = "s" + std::to_string(repeat);
    const TimePoint start = clock_.Now();
    SendMessage("driving", session, "left or right", "a");
    Advance(milliseconds(50));
    SendMessage("general", session, "hello", "b");
    Run();
    const auto a = Replies("driving", session), b = Replies("general", session);
    ASSERT_EQ(a.size(), 1u);
    ASSERT_EQ(b.size(), 1u);
    EXPECT_LE(std::max(a[0].at, b[0].at) - std::min(a[0].at, b[0].at), milliseconds(500));
    const Duration alone = kStep * 37;  // 36 pieces and the end
    EXPECT_LE(a[0].at - start, alone * 11 / 10);
    EXPECT_LE(b[0].at - start, alone * 11 / 10);
  }
}

TEST_F(ScenariosTest, AReplyNeverWaitsForSomebodyElsesNextMessage) {
  int late = 0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::string session = "s" + std::to_string(repeat);
    words_["long"] = 6;
    words_["short"] = 2;
    SendMessage("driving", session, "long", "a");  // and then nothing more
    SendMessage("general", session, "short", "b");
    const TimePoint start = clock_.Now();
    Run();
    ASSERT_EQ(Replies("general", session).size(), 1u);
    ASSERT_EQ(Replies("driving", session).size(), 1u);
    late += Replies("general", session)[0].at - start > kStep * 5;
    port_.Forget();
  }
  EXPECT_EQ(late, 0);
}

TEST_F(ScenariosTest, RepliesOfOneSessionArriveInOrder) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::string session = "s" + std::to_string(repeat);
    words_ = {{"msg1", 3}, {"msg2", 1}, {"msg3", 2}};
    for (const char* const id : {"1", "2", "3"}) {
      SendMessage("driving", session, "msg" + std::string(id), "r" + std::string(id));
      Advance(milliseconds(100));
    }
    Run();
    const std::vector<testing::Sent> replies = Replies("driving", session);
    ASSERT_EQ(replies.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const Event reply(replies[i].message.payload);
      EXPECT_EQ(reply.Int("seq"), static_cast<int64_t>(i) + 1);
      EXPECT_EQ(reply.Text("requestId"), "r" + std::to_string(i + 1));
      EXPECT_THAT(reply.Text("text"), HasSubstr("msg" + std::to_string(i + 1)));
    }
    port_.Forget();
  }
  EXPECT_EQ(SessionsFixture::HistoryText(Key("s0", "driving", "")),
            "msg1 w w w to msg1 msg2 w to msg2 msg3 w w to msg3");
}

TEST_F(ScenariosTest, InParallelOrderAllAnswerAndEachSaysWhichItIs) {
  profile_options_.projects[0].parallel = true;
  Again();
  words_ = {{"msg1", 9}, {"msg2", 1}, {"msg3", 5}};
  for (const char* const id : {"1", "2", "3"})
    SendMessage("driving", "s", "msg" + std::string(id), "r" + std::string(id));
  Run();
  const std::vector<testing::Sent> replies = Replies("driving", "s");
  ASSERT_EQ(replies.size(), 3u);
  std::string order;
  for (const testing::Sent& each : replies) {
    const Event reply(each.message.payload);
    order += Property(each.message, "seq");
    EXPECT_EQ(reply.Text("requestId"), "r" + std::to_string(reply.Int("seq")));
    EXPECT_THAT(reply.Text("text"), HasSubstr("msg" + std::to_string(reply.Int("seq"))));
  }
  EXPECT_EQ(order, "231") << "the shortest first";
}

TEST_F(ScenariosTest, TenClientsOnEightLanesAreAllAnsweredAndExactlyTwoWait) {
  for (int i = 0; i < 10; ++i)
    SendMessage("driving", "test-session-" + std::to_string(i), "Hello!", "r");
  const TimePoint start = clock_.Now();
  Run();
  const Duration service = kStep * 37;
  int waited = 0;
  for (int i = 0; i < 10; ++i) {
    const auto replies = Replies("driving", "test-session-" + std::to_string(i));
    ASSERT_EQ(replies.size(), 1u);
    waited += replies[0].at - start > service;
    EXPECT_LE(replies[0].at - start, service * 2);
  }
  EXPECT_EQ(waited, 2);
  EXPECT_EQ(inference_->most_running(), 8u);
}

TEST_F(ScenariosTest, AHundredClientsAreAllAnsweredAndNoSecretCrosses) {
  for (int i = 0; i < 100; ++i) {
    words_["secret-" + std::to_string(i) + "."] = 3;
    SendMessage("driving", "c" + std::to_string(i), "secret-" + std::to_string(i) + ".", "r");
  }
  Run();
  for (int i = 0; i < 100; ++i) {
    const auto replies = Replies("driving", "c" + std::to_string(i));
    ASSERT_EQ(replies.size(), 1u);
    for (int k = 0; k < 100; ++k) {
      const std::string secret = "secret-" + std::to_string(k) + ".";
      EXPECT_EQ(replies[0].message.payload.find(secret) != std::string::npos, i == k);
    }
  }
}

}  // namespace
}  // namespace tutti::mqtt::chat
