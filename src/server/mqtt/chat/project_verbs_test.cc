#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/mqtt/chat/project_profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using testing::Event;
using ::testing::IsEmpty;
using testing::Property;

class ProjectVerbsTest : public testing::ProfileFixture {
 protected:
  ProjectVerbsTest() {
    for (const char* const name : {"driving", "general"}) {
      ProjectSettings project;
      project.name = name;
      project.tenant = "t";
      profile_options_.projects.push_back(project);
    }
  }
  void SendMessage(const std::string& text, const std::string& session = "s",
                   const std::string& project = "driving") {
    Deliver(project + "/user_input",
            R"({"sessionId":")" + session + R"(","message":")" + text + R"("})");
    StepAll();
    port_.Forget();
  }
  // The only message that answers a command.
  Message Answer(const std::string& topic, const std::string& payload) {
    port_.Forget();
    EXPECT_TRUE(Accepted(Deliver(topic, payload)));
    EXPECT_EQ(port_.sent().size(), 1u);
    return port_.sent().empty() ? Message{} : port_.sent()[0].message;
  }
  std::string Dialog(const std::string& session, const std::string& project = "driving") {
    return SessionsFixture::HistoryText(Key(session, project, "t"));
  }
};

TEST_F(ProjectVerbsTest, ClearTakesWhatWasSaidOfOneSessionAndIsAcknowledged) {
  SendMessage("u1");
  SendMessage("u2");
  SendMessage("v1", "other");
  const Message ack = Answer("driving/clear/s", "");
  EXPECT_EQ(ack.topic, "driving/assistant_response/s");
  EXPECT_EQ(ack.payload, R"({"type":"ack","op":"clear","session_id":"s","seq":2})");
  EXPECT_EQ(Property(ack, "type"), "ack");
  EXPECT_EQ(ack.qos, 1);
  EXPECT_EQ(Dialog("s"), "");
  EXPECT_EQ(Dialog("other"), "v1 [v1]");
  SendMessage("u3");
  EXPECT_EQ(LastPrompt(), "u3");
}

TEST_F(ProjectVerbsTest, WithoutASessionAllOfTheProjectAreMeantAndNoOther) {
  SendMessage("u", "a");
  SendMessage("u", "b");
  SendMessage("u", "a", "general");
  const Message ack = Answer("driving/clear", R"({"requestId":"r"})");
  EXPECT_EQ(ack.topic, "driving/assistant_response/all");
  EXPECT_EQ(Event(ack.payload).Text("session_id"), "all");
  EXPECT_EQ(Event(ack.payload).Text("requestId"), "r");
  EXPECT_EQ(Dialog("a") + Dialog("b"), "");
  EXPECT_EQ(Dialog("a", "general"), "u [u]");
}

TEST_F(ProjectVerbsTest, ATemplateIsOfASessionOrOfTheProjectFromTheNextTurnOn) {
  EXPECT_EQ(Event(Answer("driving/template", R"({"template":"drive well"})").payload).Text("op"),
            "template");
  SendMessage("u1");
  EXPECT_EQ(LastPrompt(), "<drive well> u1");
  Answer("driving/template/s", R"({"system_prompt":"be brief"})");
  SendMessage("u2");
  EXPECT_EQ(LastPrompt(), "<be brief> u1 [u1] u2");
  Answer("driving/template", R"({"session_id":"s","reset":true})");
  SendMessage("u3");
  EXPECT_EQ(LastPrompt(), "<drive well> u1 [u1] u2 [u2] u3");
  SendMessage("x", "s", "general");
  EXPECT_EQ(LastPrompt(), "x");
}

// Regression: a template with reset was refused.
TEST_F(ProjectVerbsTest, ATemplateWithResetBeginsANewDialogWithOneAck) {
  SendMessage("u1");
  const Message ack = Answer("driving/template/s", R"({"system_prompt":"be brief","reset":true})");
  EXPECT_EQ(ack.payload, R"({"type":"ack","op":"template","session_id":"s","seq":1})");
  EXPECT_EQ(Dialog("s"), "");
  SendMessage("u2");
  EXPECT_EQ(LastPrompt(), "<be brief> u2");
  SendMessage("v1", "other");
  Answer("driving/template", R"({"template":"drive well","reset":true})");
  EXPECT_EQ(Dialog("s") + Dialog("other"), "");
  SendMessage("v2", "other");
  EXPECT_EQ(LastPrompt(), "<drive well> v2");
  SendMessage("u3");
  EXPECT_EQ(LastPrompt(), "<be brief> u3") << "a session's own prompt goes before the project's";
}

TEST_F(ProjectVerbsTest, DeleteTakesTheSessionWithItsPrompt) {
  Answer("driving/template/s", R"({"system_prompt":"be brief"})");
  SendMessage("u1");
  EXPECT_EQ(Event(Answer("driving/delete", R"({"target":"s"})").payload).Text("op"), "delete");
  SendMessage("u2");
  EXPECT_EQ(LastPrompt(), "u2");
}

TEST_F(ProjectVerbsTest, AnAnswerGoesWhereTheIdsSay) {
  const Message ack = Answer("driving/clear/s", R"({"clientId":"c","requestId":"r"})");
  EXPECT_EQ(ack.topic, "driving/assistant_response/s/c/r");
  EXPECT_EQ(Property(ack, "requestId"), "r");
  EXPECT_EQ(Event(ack.payload).Int("seq", -1), 0) << "nothing was said";
}

TEST_F(ProjectVerbsTest, WrongVerbsAreErrorsAndChangeNothing) {
  SendMessage("u1");
  const auto code = [&](const std::string& topic, const std::string& payload) {
    const Message error = Answer(topic, payload);
    EXPECT_EQ(Property(error, "type"), "error");
    return Event(error.payload).Code();
  };
  EXPECT_EQ(code("driving/clear/s", "{"), "invalid_json");
  EXPECT_EQ(code("driving/clear/s", R"({"session_id":"other"})"), "invalid_value");
  EXPECT_EQ(code("driving/template/s", "{}"), "missing_required_parameter");
  EXPECT_EQ(code("driving/delete/s", R"({"reset":true})"), "invalid_value");
  EXPECT_EQ(Dialog("s"), "u1 [u1]");
}

TEST_F(ProjectVerbsTest, ATurnThatAClearCancelsEndsAsAnError) {
  Deliver("driving/user_input", R"({"sessionId":"s","message":"long","requestId":"r"})");
  inference_->Step();
  Settle();
  Deliver("driving/clear/s", "");
  StepAll();
  std::vector<std::string> types;
  for (const testing::Sent& each : port_.sent("driving/assistant_response/s"))
    types.push_back(Property(each.message, "type"));
  EXPECT_THAT(types, ::testing::UnorderedElementsAre("error", "ack"));
  EXPECT_EQ(Dialog("s"), "");
}

}  // namespace
}  // namespace tutti::mqtt::chat
