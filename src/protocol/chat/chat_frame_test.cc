#include "protocol/chat/chat_frame.h"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

using ChatVerb = ChatFrame::Verb;

Result<ChatFrame> ParseChatText(const std::string& text, bool strict = false) {
  FrameTag tag;
  return ParseChatFrame(text, ParseOptions{.strict = strict}, &tag);
}

// "code param"
std::string RefusalOfFrame(const std::string& text) {
  const Result<ChatFrame> frame = ParseChatText(text);
  return frame.ok() ? "" : frame.status().reason() + " " + frame.status().param();
}

TEST(ChatFrame, AMessageIsThePayloadOfMqttBesideItsSession) {
  FrameTag tag;
  const Result<ChatFrame> frame = ParseChatFrame(
      R"({"type":"message","session":"kitchen","stream_id":"k","id":"1","input":"hi",)"
      R"("project":"driving","policy":"reject","max_tokens":5})",
      {.strict = true}, &tag);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->verb, ChatVerb::kMessage);
  EXPECT_EQ(frame->session, "kitchen");
  EXPECT_EQ(frame->message.project, "driving");
  const ResponsesCall& call = frame->message.call;
  EXPECT_EQ(call.message_id, "1");
  EXPECT_EQ(call.policy, "reject");
  EXPECT_EQ(call.request.sampling.max_tokens, 5);
  EXPECT_TRUE(call.store && call.background && call.truncate) << "as over MQTT";
  EXPECT_EQ(tag.stream_id, "k");
  EXPECT_EQ(tag.id, "1");
}

TEST(ChatFrame, AMessageNamesASessionOrAConversation) {
  const Result<ChatFrame> frame =
      ParseChatText(R"({"type":"message","conversation":"conv_1","id":"1","input":"hi"})", true);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->message.call.conversation, "conv_1");
  const std::string message = R"({"type":"message","id":"1","input":"hi")";
  EXPECT_EQ(RefusalOfFrame(message + "}"), "missing_required_parameter session");
  EXPECT_EQ(RefusalOfFrame(message + R"(,"session":"a","conversation":"c"})"),
            "invalid_value conversation");
  EXPECT_EQ(RefusalOfFrame(message + R"(,"project":"p","conversation":"c"})"),
            "invalid_value project");
  for (const char* bad : {R"("a/b")", R"("")", R"("#")", "7"})
    EXPECT_EQ(RefusalOfFrame(message + ",\"session\":" + bad + "}"), "invalid_value session")
        << bad;
  EXPECT_EQ(RefusalOfFrame(message + R"(,"session":")" + std::string(128, 'a') + "\"}"), "");
  EXPECT_EQ(RefusalOfFrame(message + R"(,"session":")" + std::string(129, 'a') + "\"}"),
            "invalid_value session");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"message","session":"a","input":"hi"})"),
            "missing_required_parameter id");
  EXPECT_EQ(RefusalOfFrame(message + R"(,"session":"a","stream_id":"b c"})"),
            "invalid_value stream_id");
  EXPECT_EQ(RefusalOfFrame(message + R"(,"session":"a","background":false})"),
            "unsupported_parameter background");
}

TEST(ChatFrame, VerbsAreThoseOfMqttWithTheirSession) {
  const Result<ChatFrame> cancel =
      ParseChatText(R"({"type":"cancel","id":"c","session":"kitchen"})", true);
  ASSERT_TRUE(cancel.ok()) << cancel.status();
  EXPECT_EQ(cancel->verb, ChatVerb::kControl);
  EXPECT_EQ(cancel->control.verb, MqttControl::Verb::kCancel);
  EXPECT_EQ(cancel->session, "kitchen");
  EXPECT_EQ(ParseChatText(R"({"type":"cancel","conversation":"conv_1"})")->conversation, "conv_1");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"cancel","response_id":"r"})"), "");
  const Result<ChatFrame> fork =
      ParseChatText(R"({"type":"fork","session":"a","project":"p","into":"b","version":3})", true);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->control.into, "b");
  EXPECT_EQ(fork->control.version, 3);
  const Result<ChatFrame> resume =
      ParseChatText(R"({"type":"resume","response_id":"r","starting_after":7})", true);
  ASSERT_TRUE(resume.ok()) << resume.status();
  EXPECT_EQ(resume->control.starting_after, 7);
  EXPECT_EQ(RefusalOfFrame(R"({"type":"ping"})"), "");
  for (const char* verb : {"cancel", "history", "clear"}) {
    EXPECT_EQ(RefusalOfFrame(R"({"type":")" + std::string(verb) + "\"}"),
              "missing_required_parameter session")
        << verb;
  }
  EXPECT_EQ(RefusalOfFrame(R"({"type":"fork","into":"b"})"), "missing_required_parameter session");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"history","session":"a","conversation":"c"})"),
            "invalid_value conversation");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"ping","token":"t"})"), "invalid_value token");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"resume","response_id":"r","job_id":"j"})"),
            "invalid_value job_id");
}

TEST(ChatFrame, AnUnknownTypeIsToldAllThatThereAre) {
  const Status status = ParseChatText(R"({"type":"foo"})").status();
  EXPECT_EQ(status.param(), "type");
  for (const char* type :
       {"message", "cancel", "resume", "history", "fork", "clear", "ping", "subscribe", "auth"}) {
    EXPECT_NE(status.message().find(type), std::string::npos) << status;
  }
}

TEST(ChatFrame, ASubscriptionIsAResumeOrAJob) {
  const Result<ChatFrame> response =
      ParseChatText(R"({"type":"subscribe","response_id":"r","starting_after":2,"id":"x"})", true);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->verb, ChatVerb::kControl);
  EXPECT_EQ(response->control.verb, MqttControl::Verb::kResume);
  EXPECT_EQ(response->control.response_id, "r");
  EXPECT_EQ(response->control.starting_after, 2);
  EXPECT_EQ(response->control.id, "x");
  const Result<ChatFrame> job = ParseChatText(R"({"type":"subscribe","job_id":"j"})", true);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->verb, ChatVerb::kJob);
  EXPECT_EQ(job->job_id, "j");
  EXPECT_EQ(job->starting_after, -1);
  EXPECT_EQ(RefusalOfFrame(R"({"type":"subscribe"})"), "missing_required_parameter response_id");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"subscribe","job_id":"j","response_id":"r"})"),
            "invalid_value job_id");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"subscribe","job_id":"j","into":"b"})"),
            "invalid_value into");
}

TEST(ChatFrame, WhoAsksSaysItAlone) {
  const Result<ChatFrame> auth = ParseChatText(R"({"type":"auth","token":"secret"})", true);
  ASSERT_TRUE(auth.ok()) << auth.status();
  EXPECT_EQ(auth->verb, ChatVerb::kAuth);
  EXPECT_EQ(auth->token, "secret");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"auth"})"), "missing_required_parameter token");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"auth","token":"t","session":"a"})"),
            "invalid_value session");
  EXPECT_EQ(RefusalOfFrame(R"({"type":"auth","token":"t","response_id":"r"})"),
            "invalid_value response_id");
}

TEST(ChatFrame, WhatIsNoFrameIsToldFromWhatIsAWrongOne) {
  const auto refused = [](const std::string& text) { return ParseChatText(text).status(); };
  for (const std::string text :
       {"", "{", "[]", "7", "{}", R"({"type":"none"})", R"({"type":1})", R"({"id":"a","id":"b"})",
        R"({"type":"response.create","model":"m","input":"hi"})", "\xFF"}) {
    EXPECT_FALSE(refused(text).ok()) << text;
    EXPECT_TRUE(IsNoFrame(refused(text))) << text << " " << refused(text);
  }
  for (const std::string text :
       {R"({"type":"message"})", R"({"type":"cancel"})", R"({"type":"ping","limit":1})",
        R"({"type":"message","session":"a","id":"1","input":[{"type":"none"}]})"}) {
    EXPECT_FALSE(refused(text).ok()) << text;
    EXPECT_FALSE(IsNoFrame(refused(text))) << text << " " << refused(text);
  }
}

TEST(ChatFrame, TheTagOfARefusedFrameIsKnown) {
  FrameTag tag;
  EXPECT_FALSE(
      ParseChatFrame(R"({"type":"message","stream_id":"s","id":"7","temperature":9})", {}, &tag)
          .ok());
  EXPECT_EQ(tag.stream_id, "s");
  EXPECT_EQ(tag.id, "7");
  FrameTag unfit;
  EXPECT_FALSE(ParseChatFrame(R"({"type":"none","stream_id":"a\"b","id":7})", {}, &unfit).ok());
  EXPECT_EQ(unfit.stream_id, "") << "it would stand in the answer as it is";
  EXPECT_EQ(unfit.id, "");
}

}  // namespace
}  // namespace tutti::protocol
