#include "protocol/chat/native.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

using Verb = MqttControl::Verb;

Status MessageRefusal(const std::string& payload) { return ParseMqttMessage(payload, {}).status(); }
Status ControlRefusal(const std::string& payload) { return ParseMqttControl(payload, {}).status(); }

TEST(MqttMessage, TheDocumentedPayloadIsATurn) {
  const MqttMessage message =
      ParseMqttMessage(
          R"({"id":"8f2c","type":"message","model":"m","input":"Hi","policy":"interrupt",)"
          R"("deadline_ms":30000,"project":"driving","temperature":0,"max_tokens":5,"seed":1})",
          {})
          .value();
  EXPECT_EQ(message.project, "driving");
  const ResponsesCall& call = message.call;
  EXPECT_EQ(call.message_id, "8f2c");
  EXPECT_EQ(call.model, "m");
  EXPECT_EQ(call.policy, "interrupt");
  EXPECT_EQ(call.input, (std::vector<InputItem>{{api::Role::kUser, "Hi"}}));
  EXPECT_EQ(call.request.sampling.temperature, 0.0);
  EXPECT_EQ(call.request.sampling.max_tokens, 5);
  EXPECT_EQ(call.request.sampling.seed, 1);
  EXPECT_EQ(call.request.deadline, TimePoint() + std::chrono::milliseconds(30000));
  EXPECT_TRUE(call.store && call.background && call.stream);
}

TEST(MqttMessage, OnlyIdAndInputAreNeeded) {
  const MqttMessage message = ParseMqttMessage(R"({"id":"1","input":"Hi"})", {}).value();
  EXPECT_TRUE(message.call.model.empty() && message.project.empty() && message.call.policy.empty());
  EXPECT_EQ(MessageRefusal(R"({"input":"Hi"})").param(), "id") << "it could be answered twice";
  EXPECT_EQ(MessageRefusal(R"({"id":"1"})").param(), "input");
  EXPECT_EQ(MessageRefusal(R"({"id":"","input":"Hi"})").param(), "id");
  EXPECT_EQ(MessageRefusal(R"({"id":7,"input":"Hi"})").param(), "id");
  EXPECT_EQ(MessageRefusal(R"({"id":"1","input":""})").reason(), "empty_prompt");
}

TEST(MqttMessage, BothNamesOfTheLengthMeanTheSame) {
  const auto most = [](const std::string& members) {
    return ParseMqttMessage(R"({"id":"1","input":"x",)" + members + "}", {})
        ->call.request.sampling.max_tokens;
  };
  EXPECT_EQ(most(R"("max_tokens":5)"), 5);
  EXPECT_EQ(most(R"("max_output_tokens":6)"), 6);
  EXPECT_EQ(most(R"("max_tokens":5,"max_output_tokens":5)"), 5);
  EXPECT_EQ(
      MessageRefusal(R"({"id":"1","input":"x","max_tokens":5,"max_output_tokens":6})").param(),
      "max_output_tokens");
  EXPECT_EQ(MessageRefusal(R"({"id":"1","input":"x","max_tokens":5,"min_tokens":6})").param(),
            "min_tokens");
}

TEST(MqttMessage, ALongDialogIsCutUnlessItsClientSaysOtherwise) {
  const auto truncates = [](const std::string& members) {
    return ParseMqttMessage(R"({"id":"1","input":"x")" + members + "}", {})->call.truncate;
  };
  EXPECT_TRUE(truncates(""));
  EXPECT_TRUE(truncates(R"(,"truncation":"auto")"));
  EXPECT_FALSE(truncates(R"(,"truncation":"disabled")"));
}

TEST(MqttMessage, WhatTheTopicSaysIsNotSaidAgain) {
  for (const char* member : {R"("conversation":"c")", R"("previous_response_id":"r")",
                             R"("stream":false)", R"("background":false)"}) {
    EXPECT_EQ(MessageRefusal(R"({"id":"1","input":"x",)" + std::string(member) + "}").reason(),
              "unsupported_parameter")
        << member;
  }
}

TEST(MqttMessage, TheProjectIsALevel) {
  for (const char* project : {"a/b", "#", "a b"}) {
    EXPECT_EQ(MessageRefusal(R"({"id":"1","input":"x","project":")" + std::string(project) + "\"}")
                  .param(),
              "project");
  }
}

TEST(MqttMessage, WhatIsNoJsonObjectIsRefusedWithItsCode) {
  EXPECT_EQ(MessageRefusal("Hi").reason(), "invalid_json");
  EXPECT_EQ(MessageRefusal("").reason(), "invalid_json");
  EXPECT_EQ(MessageRefusal("[1]").reason(), "invalid_json");
  EXPECT_EQ(MessageRefusal("\xFF").reason(), "invalid_utf8");
  EXPECT_EQ(MessageRefusal(R"({"id":"1","id":"2","input":"x"})").reason(), "duplicate_key");
  EXPECT_EQ(MessageRefusal(R"({"id":"1","input":)" + std::string(65, '[')).reason(), "json_depth");
}

TEST(MessageIdOf, IsReadFromARefusedPayloadIfItCan) {
  EXPECT_EQ(MessageIdOf(R"({"id":"abc","input":5})"), "abc");
  for (const char* payload : {"Hi", "[]", "{}", R"({"id":5})", R"({"id":null})", "{\"id\":"})
    EXPECT_EQ(MessageIdOf(payload), "") << payload;
  EXPECT_EQ(MessageIdOf("{\"id\":\"" + std::string(129, 'a') + "\"}"), "");
}

TEST(MqttControl, EachVerbTakesItsOwnFields) {
  MqttControl control = ParseMqttControl(R"({"type":"cancel"})", {}).value();
  EXPECT_EQ(control.verb, Verb::kCancel);
  EXPECT_TRUE(control.response_id.empty()) << "the turn that runs";
  control = ParseMqttControl(R"({"type":"cancel","response_id":"resp_1","id":"c1"})", {}).value();
  EXPECT_EQ(control.response_id, "resp_1");
  EXPECT_EQ(control.id, "c1");
  control = ParseMqttControl(R"({"type":"resume","response_id":"resp_1","starting_after":41})", {})
                .value();
  EXPECT_EQ(control.verb, Verb::kResume);
  EXPECT_EQ(control.starting_after, 41);
  control = ParseMqttControl(R"({"type":"resume","response_id":"resp_1"})", {}).value();
  EXPECT_FALSE(control.starting_after.has_value());
  control = ParseMqttControl(R"({"type":"history","limit":5,"project":"p"})", {}).value();
  EXPECT_EQ(control.verb, Verb::kHistory);
  EXPECT_EQ(control.limit, 5);
  EXPECT_EQ(control.project, "p");
  EXPECT_EQ(ParseMqttControl(R"({"type":"history"})", {})->limit, 20);
  control = ParseMqttControl(R"({"type":"fork","into":"s2","version":3})", {}).value();
  EXPECT_EQ(control.verb, Verb::kFork);
  EXPECT_EQ(control.into, "s2");
  EXPECT_EQ(control.version, 3);
  EXPECT_EQ(ParseMqttControl(R"({"type":"clear"})", {})->verb, Verb::kClear);
  control =
      ParseMqttControl(R"({"type":"subscribe","job_id":"job_1","starting_after":2})", {}).value();
  EXPECT_EQ(control.verb, Verb::kSubscribe);
  EXPECT_EQ(control.job_id, "job_1");
  EXPECT_EQ(control.starting_after, 2);
  EXPECT_EQ(ParseMqttControl(R"({"type":"ping","id":"p1"})", {})->verb, Verb::kPing);
}

TEST(MqttControl, WhatAVerbNeedsOrDoesNotKnowIsRefused) {
  EXPECT_EQ(ControlRefusal(R"({"type":"resume"})").param(), "response_id");
  EXPECT_EQ(ControlRefusal(R"({"type":"fork"})").param(), "into");
  EXPECT_EQ(ControlRefusal(R"({"type":"subscribe"})").param(), "job_id");
  EXPECT_EQ(ControlRefusal(R"({"type":"subscribe","response_id":"r"})").param(), "response_id");
  EXPECT_EQ(ControlRefusal(R"({"type":"resume","job_id":"j"})").param(), "job_id");
  EXPECT_EQ(ControlRefusal(R"({"type":"fork","into":"a/b"})").param(), "into");
  EXPECT_EQ(ControlRefusal(R"({"type":"stop"})").param(), "type");
  EXPECT_EQ(ControlRefusal("{}").param(), "type");
  EXPECT_EQ(ControlRefusal(R"({"type":"ping","response_id":"r"})").param(), "response_id");
  EXPECT_EQ(ControlRefusal(R"({"type":"cancel","starting_after":1})").param(), "starting_after");
  EXPECT_EQ(ControlRefusal(R"({"type":"cancel","limit":1})").param(), "limit");
  EXPECT_EQ(ControlRefusal(R"({"type":"history","into":"s"})").param(), "into");
  EXPECT_EQ(ControlRefusal(R"({"type":"clear","version":1})").param(), "version");
  EXPECT_EQ(ControlRefusal(R"({"type":"history","version":1})").param(), "version");
  EXPECT_EQ(ControlRefusal(R"({"type":"resume","response_id":"r","starting_after":-1})").param(),
            "starting_after");
  EXPECT_EQ(ControlRefusal(R"({"type":"history","limit":101})").param(), "limit");
}

TEST(MqttNativeEvents, HaveTheDocumentedShapes) {
  EXPECT_EQ(PongEvent("p1", 1700000000123), R"({"type":"pong","id":"p1","time_ms":1700000000123})");
  EXPECT_EQ(PongEvent("", 5), R"({"type":"pong","time_ms":5})");
  const std::vector<HistoryItem> items = {{api::Role::kUser, "Hi", 1},
                                          {api::Role::kAssistant, "H\"o", 1}};
  EXPECT_EQ(HistoryEvent("", "s1", 1, items),
            R"({"type":"history","session":"s1","version":1,"items":[)"
            R"({"role":"user","content":"Hi","turn":1},)"
            R"({"role":"assistant","content":"H\"o","turn":1}]})");
  EXPECT_EQ(HistoryEvent("h", "s1", 0, {}),
            R"({"type":"history","id":"h","session":"s1","version":0,"items":[]})");
  EXPECT_EQ(ForkedEvent("f", "s1", "s2", 3),
            R"({"type":"forked","id":"f","session":"s1","into":"s2","version":3})");
  EXPECT_EQ(ClearedEvent("c", "s1"), R"({"type":"cleared","id":"c","session":"s1"})");
  EXPECT_EQ(CancelledEvent("", "resp_1"), R"({"type":"cancelled","response_id":"resp_1"})");
  EXPECT_EQ(CancelledEvent("c", ""), R"({"type":"cancelled","id":"c","response_id":null})");
}

}  // namespace
}  // namespace tutti::protocol
