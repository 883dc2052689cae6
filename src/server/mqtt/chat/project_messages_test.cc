// The project profile's `user_input`: topic forms, payloads, replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/mqtt/chat/project_profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Event;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Property;
using ::testing::StartsWith;

class ProjectMessagesTest : public testing::ProfileFixture {
 protected:
  ProjectMessagesTest() { profile_options_.projects = {Project("driving"), Project("general")}; }
  static ProjectSettings Project(const std::string& name) {
    ProjectSettings project;
    project.name = name;
    project.tenant = "t";
    return project;
  }
  Delivery SendMessage(const std::string& payload, const std::string& project = "driving") {
    return Deliver(project + "/user_input", payload);
  }
  std::vector<std::string> Payloads(const std::string& topic) const {
    std::vector<std::string> payloads;
    for (const testing::Sent& each : port_.sent(topic)) payloads.push_back(each.message.payload);
    return payloads;
  }
  void Configure(ReplyFormat format, bool stream) {
    profile_options_.projects[0].reply_format = format;
    profile_options_.projects[0].stream = stream;
    Again();
  }
};

TEST_F(ProjectMessagesTest, AReplyIsPlainTextOnTheSessionsTopic) {
  EXPECT_TRUE(Accepted(SendMessage(R"({"sessionId":"s1","message":"hello"})")));
  StepAll();
  const std::vector<testing::Sent> sent = port_.sent();
  ASSERT_EQ(sent.size(), 1u);
  const Message& reply = sent[0].message;
  EXPECT_EQ(reply.topic, "driving/assistant_response/s1");
  EXPECT_EQ(reply.payload, "[hello]");
  EXPECT_EQ(reply.qos, 1);
  EXPECT_FALSE(reply.retain);
  EXPECT_EQ(reply.content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(Property(reply, "type"), "reply");
  EXPECT_EQ(Property(reply, "seq"), "1");
}

TEST_F(ProjectMessagesTest, EachTopicFormHasItsReply) {
  const std::string base = "driving/assistant_response/s";
  SendMessage(R"({"sessionId":"s","message":"a","clientId":"c","requestId":"r1"})");
  SendMessage(R"({"sessionId":"s","message":"b","requestId":"r2"})");
  SendMessage(R"({"sessionId":"s","message":"c","replyTopic":")" + base + R"(/mine/r3"})");
  SendMessage(R"({"sessionId":"s","message":"d","replyTopic":")" + base + R"("})");
  Deliver("driving/user_input", R"({"sessionId":"s","message":"e"})", base + "/c/r5", "corr");
  StepAll();
  EXPECT_THAT(Payloads(base + "/c/r1"), ElementsAre("[a]"));
  EXPECT_THAT(Payloads(base), ElementsAre("[b]", "[d]"));
  EXPECT_THAT(Payloads(base + "/mine/r3"), ElementsAre("[c]"));
  EXPECT_THAT(Payloads(base + "/c/r5"), ElementsAre("[e]"));
  EXPECT_EQ(port_.sent(base + "/c/r5")[0].message.correlation_data, "corr");
  EXPECT_EQ(Property(port_.sent(base + "/c/r1")[0].message, "requestId"), "r1");
  EXPECT_EQ(Property(port_.sent(base + "/c/r5")[0].message, "seq"), "5");
}

TEST_F(ProjectMessagesTest, PlainTextIsTheMessageOfASessionOfItsOwn) {
  SendMessage("what is this?");
  StepAll();
  ASSERT_EQ(port_.sent().size(), 1u);
  EXPECT_THAT(port_.sent()[0].message.topic, StartsWith("driving/assistant_response/default-"));
  EXPECT_EQ(port_.sent()[0].message.topic.size(), 27u + 16u);
  EXPECT_EQ(port_.sent()[0].message.payload, "[what is this?]");
}

TEST_F(ProjectMessagesTest, FieldsReachTheModelAndDefaultsAreTheProfiles) {
  SendMessage(R"({"sessionId":"a","message":"x","temperature":0,"topP":0.5,"maxTokens":9})");
  SendMessage(R"({"sessionId":"b","message":"y"})");
  const std::vector<api::GenerateRequest> requests = inference_->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].sampling.temperature, 0);
  EXPECT_EQ(requests[0].sampling.top_p, 0.5);
  EXPECT_EQ(requests[0].sampling.max_tokens, 9);
  EXPECT_EQ(requests[1].sampling.temperature, 0.6);
  EXPECT_EQ(requests[1].sampling.top_p, 0.9);
  EXPECT_EQ(requests[1].sampling.max_tokens, 512);
  EXPECT_EQ(requests[1].model, "small");
}

TEST_F(ProjectMessagesTest, ASystemPromptOfAMessageChangesThatTurnOnly) {
  SendMessage(R"({"sessionId":"s","message":"u1"})");
  StepAll();
  SendMessage(R"({"sessionId":"s","message":"u2","systemPrompt":"be brief"})");
  StepAll();
  EXPECT_EQ(LastPrompt(), "<be brief> u1 [u1] u2");
  SendMessage(R"({"sessionId":"s","message":"u3"})");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2 [u2] u3");
}

TEST_F(ProjectMessagesTest, TheSameSessionInTwoProjectsIsTwoDialogs) {
  const auto recall = [&](const std::string& project) {
    for (const char* const text : {"my name is", "I live in", "who am I"}) {
      SendMessage(R"({"sessionId":"s","message":")" + std::string(text) + " " + project + R"("})",
                  project);
      StepAll();
    }
    return LastPrompt();
  };
  EXPECT_THAT(recall("driving"), Not(HasSubstr("general")));
  const std::string general = recall("general");
  EXPECT_THAT(general, Not(HasSubstr("driving")));
  EXPECT_THAT(general, StartsWith("my name is general [my name is general] I live in general"));
}

TEST_F(ProjectMessagesTest, OnlyEnabledProjectsAreSubscribedAndOthersCauseNoWork) {
  EXPECT_THAT(port_.filters(), Contains("driving/user_input"));
  EXPECT_THAT(port_.filters(), Contains("general/clear/+"));
  for (const std::string& filter : port_.filters()) EXPECT_THAT(filter, Not(StartsWith("+")));
  EXPECT_EQ(SendMessage(R"({"sessionId":"s","message":"x"})", "private").sinks, 0);
  EXPECT_EQ(inference_->requests().size(), 0u);
  profile_options_.projects.clear();
  profile_options_.native = false;
  Again();
  EXPECT_THAT(port_.filters(), IsEmpty());
}

TEST_F(ProjectMessagesTest, ErrorsAreEnvelopesThatNobodyTakesForAnAnswer) {
  const auto error = [&](const std::string& payload) {
    port_.Forget();
    EXPECT_TRUE(Accepted(SendMessage(payload)));
    EXPECT_EQ(port_.sent().size(), 1u) << payload;
    const Message message = port_.sent().at(0).message;
    EXPECT_EQ(message.content_type, "application/json");
    EXPECT_EQ(Property(message, "type"), "error");
    EXPECT_TRUE(Event(message.payload).Has("error")) << message.payload;
    return message;
  };
  const Message empty = error(R"({"sessionId":"s","message":"  ","requestId":"r"})");
  EXPECT_EQ(empty.topic, "driving/assistant_response/s");
  EXPECT_EQ(Event(empty.payload).Code(), "empty_message");
  EXPECT_THAT(empty.payload, HasSubstr(R"("requestId":"r")"));
  EXPECT_EQ(Property(empty, "requestId"), "r");
  EXPECT_EQ(Event(error("").payload).Code(), "empty_message");
  EXPECT_EQ(Event(error(R"({"sessionId":"s","message":7})").payload).Code(), "invalid_value");
  EXPECT_EQ(Event(error(R"({"sessionId":"s","message":"x","topP":"a"})").payload).Code(),
            "invalid_value");
  EXPECT_EQ(Event(error(R"({"sessionId":"a/b","message":"x"})").payload).Code(), "invalid_value");
  EXPECT_EQ(inference_->requests().size(), 0u);
}

TEST_F(ProjectMessagesTest, AReplyTopicOfOthersIsRefusedAndLogged) {
  for (const char* const topic : {"driving/assistant_response/other",
                                  "general/assistant_response/s", "driving/assistant_response/s/#",
                                  "driving/assistant_response/s/+", "driving/assistant_response/sx",
                                  "driving/user_input", "driving/assistant_response/s/../other"}) {
    port_.Forget();
    const bool below = std::string_view(topic).find("..") != std::string_view::npos;
    SendMessage(R"({"sessionId":"s","message":"x","replyTopic":")" + std::string(topic) + R"("})");
    StepAll();
    ASSERT_EQ(port_.sent().size(), 1u) << topic;
    // Two dots are a level like another: it stays below the session.
    EXPECT_EQ(port_.sent()[0].message.topic, below ? topic : "driving/assistant_response/s");
    port_.Forget();
    Deliver("driving/user_input", R"({"sessionId":"s","message":"x"})", topic);
    StepAll();
    ASSERT_EQ(port_.sent().size(), 1u) << topic;
    EXPECT_EQ(port_.sent()[0].message.topic, below ? topic : "driving/assistant_response/s");
  }
  EXPECT_EQ(inference_->requests().size(), 2u);
  EXPECT_THAT(lines_->all(), HasSubstr("mqtt.refused"));
}

TEST_F(ProjectMessagesTest, AFailedTurnIsAnErrorAndLeavesNoTextInTheHistory) {
  inference_->script = [](const api::GenerateRequest&) {
    return responses::testing::Script{
        .pieces = {"half"}, .end = Unavailable("engine_stalled", "the engine stands still")};
  };
  SendMessage(R"({"sessionId":"s","message":"x","requestId":"r"})");
  StepAll();
  ASSERT_EQ(port_.sent().size(), 1u);
  EXPECT_EQ(Event(port_.sent()[0].message.payload).Code(), "engine_stalled");
  EXPECT_EQ(SessionsFixture::HistoryText(Key("s", "driving", "t")), "");
  EXPECT_EQ(profile_->statistics().errors, 1u);
}

TEST_F(ProjectMessagesTest, JsonRepliesRepeatTheIds) {
  Configure(ReplyFormat::kJson, false);
  SendMessage(R"({"sessionId":"s","message":"hi","clientId":"c","requestId":"r"})");
  StepAll();
  const Event reply(port_.sent("driving/assistant_response/s/c/r").at(0).message.payload);
  EXPECT_EQ(reply.Text("sessionId"), "s");
  EXPECT_EQ(reply.Text("requestId"), "r");
  EXPECT_EQ(reply.Int("seq"), 1);
  EXPECT_EQ(reply.Text("text"), "[hi]");
  EXPECT_TRUE(reply.Flag("final"));
  EXPECT_FALSE(reply.Has("index"));
  EXPECT_TRUE(reply.Has("usage"));
}

TEST_F(ProjectMessagesTest, StreamedChunksHaveNoGapsAndAreTheWholeInAHundredChats) {
  Configure(ReplyFormat::kText, true);
  uint32_t seed = 7;
  for (int chat = 0; chat < 100; ++chat) {
    const std::string session = "s" + std::to_string(chat);
    std::string text;
    for (int i = 0; i < 5 + chat % 40; ++i) {
      seed = seed * 1664525 + 1013904223;
      text += i % 7 == 6 ? " \xC3\xA4" : std::string(1, static_cast<char>('a' + seed % 26));
    }
    inference_->script = [&](const api::GenerateRequest&) {
      responses::testing::Script script;
      script.pieces = {text.substr(0, 1), text.substr(1, 3), text.substr(4)};
      if (chat % 2 == 1) script.reasoning = {"reasoning is ", "no part of a reply"};
      return script;
    };
    port_.Forget();
    SendMessage(R"({"sessionId":")" + session + R"(","message":"go"})");
    Work(milliseconds(chat % 3 * 25));
    std::string whole;
    int64_t index = 0;
    const std::vector<testing::Sent> sent = port_.sent("driving/assistant_response/" + session);
    ASSERT_GE(sent.size(), 2u);
    for (const testing::Sent& each : sent) {
      const Event event(each.message.payload);
      EXPECT_EQ(each.message.qos, 1);
      EXPECT_EQ(event.Int("index", -1), index++);
      EXPECT_EQ(event.Flag("final"), &each == &sent.back());
      if (&each == &sent.back()) {
        EXPECT_EQ(event.Text("text"), whole);
        EXPECT_EQ(event.Text("text"), text) << "as it is without a stream";
      } else {
        whole += event.Text("text");
      }
    }
  }
}

TEST_F(ProjectMessagesTest, ARequestIdIsAnsweredOnceWhileItsAnswerIsOnItsWay) {
  const std::string message = R"({"sessionId":"s","message":"x","requestId":"r"})";
  SendMessage(message);
  EXPECT_TRUE(Accepted(SendMessage(message)));
  StepAll();
  EXPECT_THAT(Payloads("driving/assistant_response/s"), ElementsAre("[x]"));
  EXPECT_EQ(inference_->requests().size(), 1u);
  EXPECT_EQ(profile_->statistics().waiting, 0u);
}

TEST_F(ProjectMessagesTest, WhoAsksAgainIsAnsweredAgainButNotTheTransportAlone) {
  Message message;
  message.topic = "driving/user_input";
  message.payload = R"({"sessionId":"s","message":"x","requestId":"r"})";
  message.qos = 1;
  Deliver(message);
  StepAll();
  message.redelivered = true;
  EXPECT_TRUE(Accepted(Deliver(message)));
  EXPECT_EQ(port_.sent().size(), 1u) << "the answer has arrived";
  message.redelivered = false;
  Deliver(message);
  EXPECT_THAT(Payloads("driving/assistant_response/s"), ElementsAre("[x]", "[x]"));
  EXPECT_EQ(Property(port_.sent()[1].message, "seq"), "1");
  EXPECT_EQ(inference_->requests().size(), 1u) << "one generation";
}

TEST_F(ProjectMessagesTest, TwoEqualTextsWithDifferentIdsAreTwoTurns) {
  SendMessage(R"({"sessionId":"s","message":"x","requestId":"r1"})");
  SendMessage(R"({"sessionId":"s","message":"x","requestId":"r2"})");
  SendMessage(
      R"({"sessionId":"s","message":"x","requestId":"r1","clientId":"c"})");  // another client
  SendMessage(R"({"sessionId":"s","message":"x"})");
  SendMessage(R"({"sessionId":"s","message":"x"})");
  StepAll();
  EXPECT_EQ(inference_->requests().size(), 5u);
}

TEST_F(ProjectMessagesTest, ARateLimitAndAFullRoomAreTypedErrors) {
  profile_options_.waiting.all = 2;
  Again();
  admit_ = [](const sessions::SessionKey& key) {
    return key.session == "late" ? ResourceExhausted("rate_limit_exceeded", "20 in 60 s")
                                       .WithRetryAfter(milliseconds(900))
                                 : OkStatus();
  };
  SendMessage(R"({"sessionId":"late","message":"x"})");
  const Event limited(Payloads("driving/assistant_response/late").at(0));
  EXPECT_EQ(limited.Code(), "rate_limit_exceeded");
  EXPECT_THAT(limited.Json("error"), HasSubstr(R"("retry_after_ms":900)"));
  for (const char* const session : {"a", "b", "c"})
    SendMessage(R"({"sessionId":")" + std::string(session) + R"(","message":"x"})");
  EXPECT_EQ(Event(Payloads("driving/assistant_response/c").at(0)).Code(), "overloaded");
  StepAll();
  EXPECT_THAT(Payloads("driving/assistant_response/a"), ElementsAre("[x]"));
  EXPECT_EQ(profile_->statistics().rejected, 2u);
  EXPECT_EQ(profile_->statistics().processed, 2u);
}

// Regression: the messages did not count for any limit, so one member of a project could take all
// places.
TEST_F(ProjectMessagesTest, NeitherOneUserNorAProjectWithoutUsersTakesAllPlaces) {
  profile_options_.waiting.per_user = 1;
  profile_options_.waiting.per_project = 2;
  Again();
  const auto say = [&](const std::string& user, const std::string& session) {
    Message message;
    message.topic = "driving/user_input";
    message.payload = R"({"sessionId":")" + session + R"(","message":"x"})";
    message.qos = 1;
    message.user = user;
    Deliver(std::move(message));
    const std::vector<std::string> told = Payloads("driving/assistant_response/" + session);
    return told.empty() ? "" : Event(told[0]).Code();
  };
  EXPECT_EQ(say("alice", "a1"), "");
  EXPECT_EQ(say("alice", "a2"), "tenant_concurrency");
  EXPECT_EQ(say("bob", "b"), "");
  EXPECT_EQ(say("", "c1"), "") << "of a broker, which does not tell who it is";
  EXPECT_EQ(say("", "c2"), "");
  EXPECT_EQ(say("", "c3"), "tenant_concurrency");
  StepAll();
  EXPECT_EQ(say("alice", "a3"), "") << "hers is answered";
  StepAll();
  for (const char* const session : {"a1", "b", "c1", "c2", "a3"}) {
    EXPECT_THAT(Payloads("driving/assistant_response/" + std::string(session)), ElementsAre("[x]"));
  }
}

// Regression: the sessions of one client took the place of those of all others in the project.
TEST_F(ProjectMessagesTest, AuthenticatedClientHasItsOwnSessions) {
  for (const char* const user : {"alice", ""}) {
    Message message;
    message.topic = "driving/user_input";
    message.payload = R"({"sessionId":")" + std::string(user) +
                      R"(-1","clientId":"c","requestId":"r","message":"x"})";
    message.qos = 1;
    message.user = user;
    Deliver(std::move(message));
  }
  StepAll();
  const auto owned = [&](const std::string& owner) {
    return AskStore("SELECT count(*) FROM dialog WHERE owner='" + owner + "'");
  };
  EXPECT_EQ(owned("project:driving/alice"), 1);
  EXPECT_EQ(owned("project:driving"), 1) << "an id that a client gives itself has no quota";
}

TEST_F(ProjectMessagesTest, WhatIsLoggedHasNoWordOfWhatWasSaid) {
  SendMessage(R"({"sessionId":"s","message":"a secret word","replyTopic":"elsewhere"})");
  SendMessage(R"({"sessionId":"s","message":"a secret word"})");
  StepAll();
  EXPECT_THAT(lines_->all(), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace tutti::mqtt::chat
