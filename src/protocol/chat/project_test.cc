#include "protocol/chat/project.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

constexpr const char* kSession = "driving/assistant_response/s1";

ReceivedMessage Receive(const std::string& payload) {
  return ParseProjectMessage("driving", payload, "0123abcd", {});
}

ReceivedVerb ReadVerb(ProjectOp op, const std::string& payload, const std::string& session = "") {
  return ParseProjectVerb("driving", op, session, payload, {});
}

TEST(ProjectMessage, AFullPayloadIsReadAndAnsweredAtItsIds) {
  const ReceivedMessage received =
      Receive(R"({"sessionId":"s1","message":"Hi","temperature":0,"topP":0.5,"maxTokens":7,)"
              R"("systemPrompt":"Be brief.","clientId":"c1","requestId":"r1"})");
  EXPECT_EQ(received.reply.topic, std::string(kSession) + "/c1/r1");
  EXPECT_EQ(received.reply.session, "s1");
  EXPECT_EQ(received.reply.client, "c1");
  EXPECT_EQ(received.reply.request_id, "r1");
  ASSERT_TRUE(received.message.ok()) << received.message.status();
  EXPECT_EQ(received.message->text, "Hi");
  EXPECT_EQ(received.message->system_prompt, "Be brief.");
  EXPECT_EQ(received.message->sampling.temperature, 0.0) << "0 is honoured";
  EXPECT_EQ(received.message->sampling.top_p, 0.5);
  EXPECT_EQ(received.message->sampling.max_tokens, 7);
}

TEST(ProjectMessage, WhatIsNotSaidHasTheDocumentedDefaults) {
  const ReceivedMessage received = Receive(R"({"message":"Hi"})");
  EXPECT_EQ(received.reply.session, "default-0123abcd");
  EXPECT_EQ(received.reply.topic, "driving/assistant_response/default-0123abcd");
  EXPECT_TRUE(received.reply.client.empty() && received.reply.request_id.empty());
  EXPECT_EQ(received.message->sampling.temperature, 0.6);
  EXPECT_EQ(received.message->sampling.top_p, 0.9);
  EXPECT_EQ(received.message->sampling.max_tokens, 512);
  EXPECT_FALSE(received.message->system_prompt.has_value());
  // The same with null and with empty ids, which older clients send for "none".
  const ReceivedMessage nulls =
      Receive(R"({"message":"Hi","sessionId":"","clientId":"","requestId":null,"replyTopic":"",)"
              R"("temperature":null,"topP":null,"maxTokens":null,"systemPrompt":null})");
  EXPECT_EQ(nulls.reply.topic, received.reply.topic);
  EXPECT_TRUE(nulls.message.ok()) << nulls.message.status();
  EXPECT_EQ(nulls.message->sampling.temperature, 0.6);
}

TEST(ProjectMessage, PlainTextIsTheMessage) {
  for (const char* text : {"Hello", "42", "true", "\"quoted\"", "null", "{not json",
                           "say {\"a\":1}", "two\nlines", "gr\xC3\xBC\xC3\x9F dich"}) {
    const ReceivedMessage received = Receive(text);
    ASSERT_TRUE(received.message.ok()) << text << ": " << received.message.status();
    EXPECT_EQ(received.message->text, text);
    EXPECT_EQ(received.message->sampling.max_tokens, 512);
    EXPECT_EQ(received.reply.topic, "driving/assistant_response/default-0123abcd");
  }
}

TEST(ProjectMessage, AnEmptyMessageIsToldAtItsIds) {
  for (const char* payload : {"", "  \r\n\t", R"({"message":""})", R"({"message":" \n"})"}) {
    EXPECT_EQ(Receive(payload).message.status().reason(), "empty_message") << payload;
  }
  const ReceivedMessage received =
      Receive(R"({"message":"","sessionId":"s1","clientId":"c","requestId":"r"})");
  EXPECT_EQ(received.reply.topic, std::string(kSession) + "/c/r");
  EXPECT_EQ(Receive(R"({"sessionId":"s1"})").message.status().reason(),
            "missing_required_parameter");
}

TEST(ProjectMessage, WrongTypesAreToldByNameAtTheIdsThatCanBeRead) {
  struct Case {
    const char *member, *param;
  };
  for (const Case& c : std::vector<Case>{{R"("temperature":"0.5")", "temperature"},
                                         {R"("temperature":2.5)", "temperature"},
                                         {R"("topP":-0.1)", "topP"},
                                         {R"("maxTokens":0)", "maxTokens"},
                                         {R"("maxTokens":1.5)", "maxTokens"},
                                         {R"("maxTokens":"512")", "maxTokens"},
                                         {R"("systemPrompt":5)", "systemPrompt"},
                                         {R"("clientId":5)", "clientId"},
                                         {R"("replyTopic":[])", "replyTopic"}}) {
    const ReceivedMessage received = Receive(R"({"message":"x","sessionId":"s1","requestId":"r",)" +
                                             std::string(c.member) + "}");
    EXPECT_EQ(received.message.status().reason(), "invalid_value") << c.member;
    EXPECT_EQ(received.message.status().param(), c.param);
    EXPECT_EQ(received.reply.topic, kSession);
    EXPECT_EQ(received.reply.request_id, "r");
  }
  EXPECT_EQ(Receive(R"({"message":5})").message.status().param(), "message");
  EXPECT_EQ(Receive(R"(["Hi"])").message.status().reason(), "invalid_json");
  const ReceivedMessage session = Receive(R"({"message":"x","sessionId":5})");
  EXPECT_EQ(session.message.status().param(), "sessionId");
  EXPECT_EQ(session.reply.session, "default-0123abcd");
}

TEST(ProjectMessage, JsonThatIsNotReadIsNoMessageForAModel) {
  EXPECT_EQ(Receive(R"({"message":"a","message":"b"})").message.status().reason(), "duplicate_key");
  EXPECT_EQ(Receive(std::string(65, '[') + std::string(65, ']')).message.status().reason(),
            "json_depth");
  EXPECT_EQ(Receive(R"({"message":"a","temperature":)" + std::string(65, '1') + "}")
                .message.status()
                .reason(),
            "invalid_json");
  EXPECT_EQ(Receive("\xFF\xFE").message.status().reason(), "invalid_utf8");
  EXPECT_EQ(Receive(R"({"message":"\ud800"})").message.status().reason(), "invalid_utf8");
}

TEST(ProjectMessage, IdsAreLevelsOfATopic) {
  for (const char* name : {"sessionId", "clientId", "requestId"}) {
    for (const char* id : {"a/b", "+", "a#", "a\\u0000b", "a\\n", "\\u007f"}) {
      const ReceivedMessage refused =
          Receive(R"({"message":"x",")" + std::string(name) + "\":\"" + id + "\"}");
      EXPECT_EQ(refused.message.status().param(), name) << id;
      EXPECT_EQ(refused.reply.topic, "driving/assistant_response/default-0123abcd");
    }
    EXPECT_TRUE(
        Receive(R"({"message":"x",")" + std::string(name) + "\":\"\xC3\xA9 1:2\"}").message.ok())
        << "the clients' own words";
    EXPECT_EQ(
        Receive(R"({"message":"x",")" + std::string(name) + "\":\"" + std::string(129, 'a') + "\"}")
            .message.status()
            .param(),
        name);
  }
}

TEST(ProjectMessage, OneOfTwoIdsAloneLeadsToTheTopicOfTheSession) {
  EXPECT_EQ(Receive(R"({"message":"x","sessionId":"s1","clientId":"c"})").reply.topic, kSession);
  EXPECT_EQ(Receive(R"({"message":"x","sessionId":"s1","requestId":"r"})").reply.topic, kSession);
}

TEST(ProjectMessage, TheReplyTopicMustBeTheSessions) {
  const auto with = [](const std::string& topic) {
    return Receive(
        R"({"message":"x","sessionId":"s1","clientId":"c","requestId":"r","replyTopic":")" + topic +
        "\"}");
  };
  for (const std::string& topic :
       {std::string(kSession), std::string(kSession) + "/c", std::string(kSession) + "/c/r",
        std::string(kSession) + "/other/one"}) {
    EXPECT_TRUE(with(topic).message.ok()) << topic;
    EXPECT_EQ(with(topic).reply.topic, topic);
  }
  for (const std::string& topic :
       {std::string("driving/assistant_response/s2"), std::string("driving/assistant_response/s12"),
        std::string("driving/assistant_response"), std::string("driving/user_input"),
        std::string("other/assistant_response/s1"), std::string(kSession) + "/",
        std::string(kSession) + "/#", std::string(kSession) + "/+", std::string(kSession) + "x",
        std::string("x/") + kSession, std::string(kSession) + "/a\\u0000",
        std::string(kSession) + "/" + std::string(500, 'a'),
        std::string(kSession) + "/1/2/3/4/5/6/7/8/9/10/11/12/13/14"}) {
    const ReceivedMessage received = with(topic);
    EXPECT_EQ(received.message.status().param(), "replyTopic") << topic;
    EXPECT_EQ(received.reply.topic, std::string(kSession) + "/c/r") << "told where it is allowed";
  }
}

TEST(ProjectMessage, AFaultIsToldOnTheReplyTopicThatWasAskedFor) {
  const ReceivedMessage received =
      Receive(R"({"message":"x","sessionId":"s1","temperature":"hot","replyTopic":")" +
              std::string(kSession) + "/mine\"}");
  EXPECT_FALSE(received.message.ok());
  EXPECT_EQ(received.reply.topic, std::string(kSession) + "/mine");
}

TEST(ProjectMessage, LongIdsDoNotMakeATopicThatCannotBeWritten) {
  const std::string id(128, 'a');
  const ReceivedMessage received =
      ParseProjectMessage(std::string(128, 'p'),
                          R"({"message":"x","sessionId":")" + id + R"(","clientId":")" + id +
                              R"(","requestId":")" + id + "\"}",
                          "0123abcd", {});
  EXPECT_TRUE(received.message.ok());
  EXPECT_LE(received.reply.topic.size(), 512u);
  EXPECT_TRUE(received.reply.topic.ends_with("/" + id));
}

TEST(ProjectVerb, ClearAndDeleteAreOfOneSessionOrOfAll) {
  for (const ProjectOp op : {ProjectOp::kClear, ProjectOp::kDelete}) {
    for (const char* payload : {R"({"session_id":"s1"})", R"({"sessionId":"s1"})",
                                R"({"target":"s1"})", R"({"session_id":"s1","target":"s1"})"}) {
      const ReceivedVerb received = ReadVerb(op, payload);
      ASSERT_TRUE(received.verb.ok()) << payload << ": " << received.verb.status();
      EXPECT_EQ(received.verb->op, op);
      EXPECT_EQ(received.verb->session, "s1");
      EXPECT_EQ(received.reply.topic, kSession);
    }
    for (const char* payload : {"", " ", "{}", R"({"session_id":"all"})", R"({"target":"all"})",
                                R"({"target":null})", R"({"target":""})"}) {
      const ReceivedVerb received = ReadVerb(op, payload);
      ASSERT_TRUE(received.verb.ok()) << payload << ": " << received.verb.status();
      EXPECT_EQ(received.verb->session, "") << payload;
      EXPECT_EQ(received.reply.session, "all");
    }
    EXPECT_EQ(ReadVerb(op, "", "s1").verb->session, "s1") << "by topic";
    EXPECT_EQ(ReadVerb(op, "", "s1").reply.topic, kSession);
    EXPECT_EQ(ReadVerb(op, "", "all").verb->session, "");
    EXPECT_EQ(ReadVerb(op, R"({"session_id":"s1"})", "s1").verb->session, "s1");
  }
}

// Otherwise a mistake would clear another session.
TEST(ProjectVerb, ContradictionsAreRefused) {
  EXPECT_EQ(ReadVerb(ProjectOp::kClear, R"({"session_id":"s2"})", "s1").verb.status().param(),
            "session_id");
  EXPECT_EQ(ReadVerb(ProjectOp::kClear, R"({"target":"all"})", "s1").verb.status().param(),
            "target");
  EXPECT_EQ(ReadVerb(ProjectOp::kClear, R"({"session_id":"s1"})", "all").verb.status().param(),
            "session_id");
  EXPECT_EQ(ReadVerb(ProjectOp::kClear, R"({"session_id":"a","target":"b"})").verb.status().param(),
            "target");
  EXPECT_EQ(ReadVerb(ProjectOp::kClear, R"({"template":"x"})").verb.status().param(), "template");
  EXPECT_EQ(ReadVerb(ProjectOp::kDelete, R"({"reset":true})").verb.status().param(), "reset");
  EXPECT_EQ(ReadVerb(ProjectOp::kDelete, "s1").verb.status().reason(), "invalid_json");
  EXPECT_EQ(ReadVerb(ProjectOp::kDelete, "\"s1\"").verb.status().reason(), "invalid_json");
  EXPECT_EQ(ReadVerb(ProjectOp::kDelete, R"({"session_id":5})").verb.status().param(),
            "session_id");
  EXPECT_EQ(ReadVerb(ProjectOp::kDelete, R"({"session_id":"#"})").verb.status().param(),
            "session_id");
}

TEST(ProjectVerb, ATemplateHasThreeNamesAndCanBeTakenBack) {
  for (const char* name : {"template", "system_prompt", "prompt_template"}) {
    const ReceivedVerb received = ReadVerb(
        ProjectOp::kTemplate, R"({"session_id":"s1",")" + std::string(name) + "\":\"Be.\"}");
    ASSERT_TRUE(received.verb.ok()) << received.verb.status();
    EXPECT_EQ(received.verb->system_prompt, "Be.");
  }
  EXPECT_FALSE(ReadVerb(ProjectOp::kTemplate, R"({"reset":true})").verb->system_prompt.has_value());
  EXPECT_EQ(ReadVerb(ProjectOp::kTemplate, R"({"template":""})").verb->system_prompt, "");
  EXPECT_EQ(ReadVerb(ProjectOp::kTemplate, "{}").verb.status().reason(),
            "missing_required_parameter");
  EXPECT_EQ(ReadVerb(ProjectOp::kTemplate, R"({"reset":false})").verb.status().param(), "template");
  EXPECT_FALSE(ReadVerb(ProjectOp::kTemplate, R"({"reset":true})").verb->clears);
  EXPECT_FALSE(ReadVerb(ProjectOp::kTemplate, R"({"reset":false,"template":"x"})").verb->clears);
  const ReceivedVerb both = ReadVerb(ProjectOp::kTemplate, R"({"reset":true,"system_prompt":"x"})");
  ASSERT_TRUE(both.verb.ok()) << both.verb.status();
  EXPECT_EQ(both.verb->system_prompt, "x");
  EXPECT_TRUE(both.verb->clears);
  EXPECT_EQ(ReadVerb(ProjectOp::kTemplate, R"({"template":"x","system_prompt":"y"})")
                .verb.status()
                .param(),
            "system_prompt");
  EXPECT_TRUE(ReadVerb(ProjectOp::kTemplate, R"({"template":"x","system_prompt":"x"})").verb.ok());
}

TEST(ProjectVerb, IsAcknowledgedAtItsIds) {
  const ReceivedVerb received =
      ReadVerb(ProjectOp::kClear, R"({"session_id":"s1","clientId":"c","requestId":"r"})");
  EXPECT_EQ(received.reply.topic, std::string(kSession) + "/c/r");
  EXPECT_EQ(ProjectAckJson(received.reply, received.verb->op, 7),
            R"({"type":"ack","op":"clear","session_id":"s1","seq":7,"requestId":"r"})");
  const ReceivedVerb all = ReadVerb(ProjectOp::kDelete, "");
  EXPECT_EQ(all.reply.topic, "driving/assistant_response/all");
  EXPECT_EQ(ProjectAckJson(all.reply, all.verb->op, 0),
            R"({"type":"ack","op":"delete","session_id":"all","seq":0})");
}

TEST(ProjectTopic, AreThoseThatTheServerListensTo) {
  const auto channel = [](const char* topic) { return ParseProjectTopic("p", topic)->channel; };
  EXPECT_EQ(channel("p/user_input"), ProjectChannel::kUserInput);
  EXPECT_EQ(channel("p/state"), ProjectChannel::kState);
  EXPECT_EQ(channel("p/template"), ProjectChannel::kTemplate);
  EXPECT_EQ(channel("p/clear"), ProjectChannel::kClear);
  EXPECT_EQ(channel("p/delete"), ProjectChannel::kDelete);
  EXPECT_EQ(ParseProjectTopic("p", "p/delete/s1")->session, "s1");
  EXPECT_EQ(ParseProjectTopic("p", "p/delete")->session, "");
  for (const char* topic : {"p", "p/", "q/user_input", "p2/user_input", "p/user_input/x",
                            "p/state/x", "p/clear/", "p/clear/a/b", "p/clear/+",
                            "p/assistant_response/s1", "p/status", "p/Clear", "", "/p/clear"}) {
    EXPECT_FALSE(ParseProjectTopic("p", topic).has_value()) << topic;
  }
}

TEST(ProjectReplies, HaveTheDocumentedShapes) {
  const ProjectReply reply{"t", "s1", "c1", "r1"};
  EXPECT_EQ(ProjectReplyJson(reply, 3, std::nullopt, "Hi", {10, 4, 2}),
            R"({"sessionId":"s1","clientId":"c1","requestId":"r1","seq":3,"text":"Hi",)"
            R"("usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,)"
            R"("prompt_tokens_details":{"cached_tokens":4},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}},"final":true})");
  EXPECT_EQ(ProjectChunkJson(reply, 3, 0, "H"),
            R"({"sessionId":"s1","clientId":"c1","requestId":"r1","seq":3,"index":0,"text":"H",)"
            R"("final":false})");
  const std::string last = ProjectReplyJson({"t", "s1", "", ""}, 1, 2, "Hi", {});
  EXPECT_TRUE(last.starts_with(R"({"sessionId":"s1","requestId":null,"seq":1,"index":2,)")) << last;
  EXPECT_EQ(ProjectStatusJson("tutti", true, 5), R"({"service":"tutti","status":"online","ts":5})");
  EXPECT_EQ(ProjectStatusJson("tutti", false, 5),
            R"({"service":"tutti","status":"offline","ts":5})");
}

TEST(ProjectReplies, AnErrorCannotBeTakenForAnAnswer) {
  const Status busy = ResourceExhausted("rate_limit_exceeded", "20 in 60 s")
                          .WithRetryAfter(std::chrono::milliseconds(1200));
  EXPECT_EQ(ProjectErrorJson({"t", "s1", "c1", "r1"}, busy),
            R"({"error":{"code":"rate_limit_exceeded","message":"20 in 60 s",)"
            R"("retry_after_ms":1200,"requestId":"r1"}})");
  const ReceivedMessage empty = Receive("");
  EXPECT_EQ(ProjectErrorJson(empty.reply, empty.message.status()),
            R"({"error":{"code":"empty_message","message":"the message is empty"}})");
  const std::string ours = ProjectErrorJson({}, Internal("/secret"));
  EXPECT_EQ(ours.find("secret"), std::string::npos) << ours;
}

}  // namespace
}  // namespace tutti::protocol
