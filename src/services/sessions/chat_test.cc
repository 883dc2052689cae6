// Users, sessions and projects of a chat; the verbs are tested with each protocol.
#include "services/sessions/chat.h"

#include <gtest/gtest.h>

#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

TEST(ChatUserTest, SeesItsOwnResponsesAndWhereItIsKnownThoseOfNoUser) {
  ChatUser user{.tenant = "t", .name = "al"};
  EXPECT_TRUE(MayRead(user, "al/s"));
  EXPECT_FALSE(MayRead(user, "alice/s"));
  EXPECT_FALSE(MayRead(user, "conv_1"));
  EXPECT_FALSE(MayRead(user, ""));
  user.known = true;
  EXPECT_TRUE(MayRead(user, "conv_1"));
  EXPECT_TRUE(MayRead(user, ""));
  EXPECT_FALSE(MayRead(user, "alice/s"));
}

class ChatTest : public testing::SessionsFixture {
 protected:
  ChatOptions options_{.default_project = "default",
                       .projects = {{.name = "driving", .tenant = "t"}},
                       .admit = nullptr,
                       .unix_ms = [] { return int64_t{7}; }};
};

TEST_F(ChatTest, ASessionIsItsUsersAndItsProjects) {
  const Chat chat(options_, *sessions_);
  const ChatUser user{.tenant = "t", .name = "al"};
  EXPECT_EQ(chat.KeyOf(user, "", "s"), (SessionKey{"t", "default", "al/s"}));
  EXPECT_EQ(chat.KeyOf(user, "driving", "s"), (SessionKey{"t", "driving", "al/s"}));
}

TEST_F(ChatTest, OnlyProjectsOfTheSettingsAndOfTheTenantMayBeNamed) {
  const Chat chat(options_, *sessions_);
  const ChatUser user{.tenant = "t", .name = "al"}, other{.tenant = "u", .name = "al"};
  EXPECT_TRUE(chat.CheckProject(user, "").ok());
  EXPECT_TRUE(chat.CheckProject(user, "default").ok());
  EXPECT_TRUE(chat.CheckProject(user, "driving").ok());
  const Status foreign = chat.CheckProject(other, "driving");
  EXPECT_EQ(foreign.reason(), "not_found");
  EXPECT_EQ(foreign.param(), "project");
  EXPECT_EQ(chat.CheckProject(user, "drivin").reason(), "not_found");
}

TEST_F(ChatTest, ReasoningIsNotInTheHistory) {
  inference_->script = [](const api::GenerateRequest&) {
    return responses::testing::Script{.pieces = {"so"}, .reasoning = {"why"}};
  };
  const Chat chat(options_, *sessions_);
  const ChatUser user{.tenant = "t", .name = "al"};
  Answer(chat.KeyOf(user, "", "s"), "u1");
  protocol::MqttControl control;
  control.verb = protocol::MqttControl::Verb::kHistory;
  support::Call<Result<std::string>> call;
  chat.Carry(user, "s", control, call.done());
  const Result<std::string> told = call.Get();
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_NE(told->find(R"("items":[{"role":"user","content":"u1","turn":1},)"
                       R"({"role":"assistant","content":"so","turn":1}])"),
            std::string::npos)
      << *told;
}

TEST_F(ChatTest, AMessageIsAskedForItsAdmissionWhereThereIsOne) {
  EXPECT_EQ(Chat(options_, *sessions_).AdmissionOf({"t", "default", "al/s"}), nullptr);
  options_.admit = [](const SessionKey& key) -> Result<Admitted> {
    if (key.session == "al/s") return ResourceExhausted("rate_limit_exceeded", "wait");
    return Admitted();
  };
  const Chat chat(options_, *sessions_);
  EXPECT_EQ(chat.AdmissionOf({"t", "default", "al/s"})().status().reason(), "rate_limit_exceeded");
  EXPECT_TRUE(chat.AdmissionOf({"t", "default", "al/t"})().ok());
}

}  // namespace
}  // namespace tutti::sessions
