#include "protocol/responses/socket_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using ::testing::HasSubstr;
using SocketVerb = SocketMessage::Verb;

Result<SocketMessage> ParseSocketText(const std::string& text, bool strict = false) {
  std::string stream_id;
  return ParseSocketMessage(text, ParseOptions{.strict = strict}, &stream_id);
}

// "code param"
std::string RefusalOfSocket(const std::string& text) {
  const Result<SocketMessage> message = ParseSocketText(text);
  return message.ok() ? "" : message.status().reason() + " " + message.status().param();
}

TEST(SocketMessage, ACreateIsTheBodyOfAResponseBesideItsTypeAndChannel) {
  const Result<SocketMessage> message = ParseSocketText(
      R"({"type":"response.create","stream_id":"a.B_1-","model":"m","input":"hi","store":false})",
      true);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->verb, SocketVerb::kCreate);
  EXPECT_EQ(message->stream_id, "a.B_1-");
  EXPECT_EQ(message->call.model, "m");
  EXPECT_TRUE(message->call.stream);
  EXPECT_FALSE(message->call.store);
  ASSERT_EQ(message->call.input.size(), 1u);
  EXPECT_EQ(message->call.input[0].text, "hi");
}

// Regression: a client with several channels could not determine which channel was refused.
TEST(SocketMessage, ItsLaneIsKnownWhateverElseIsWrong) {
  for (
      const char* text :
      {R"({"type":"response.create","stream_id":"a","model":"m","input":"hi","max_output_tokens":1})",
       R"({"type":"response.create","stream_id":"a","model":7})",
       R"({"type":"foo","stream_id":"a"})", R"({"stream_id":"a"})",
       R"({"type":"ping","stream_id":"a"})",
       R"({"type":"subscribe","stream_id":"a","starting_after":"x"})"}) {
    std::string stream_id;
    EXPECT_FALSE(ParseSocketMessage(text, {}, &stream_id).ok()) << text;
    EXPECT_EQ(stream_id, "a") << text;
  }
  std::string stream_id;
  EXPECT_FALSE(ParseSocketMessage(R"({"type":"ping","stream_id":"a/b"})", {}, &stream_id).ok());
  EXPECT_EQ(stream_id, "");
}

TEST(SocketMessage, AnUnknownTypeIsToldAllThatThereAre) {
  const Status status = ParseSocketText(R"({"type":"foo"})").status();
  EXPECT_EQ(status.param(), "type");
  for (const char* type : {"response.create", "response.cancel", "subscribe", "ping", "auth"})
    EXPECT_THAT(status.message(), HasSubstr(type));
}

TEST(SocketMessage, TheOthersHaveTheirFieldsAlone) {
  const Result<SocketMessage> cancel =
      ParseSocketText(R"({"type":"response.cancel","response_id":"r"})");
  ASSERT_TRUE(cancel.ok()) << cancel.status();
  EXPECT_EQ(cancel->verb, SocketVerb::kCancel);
  EXPECT_EQ(cancel->response_id, "r");
  const Result<SocketMessage> all = ParseSocketText(R"({"type":"subscribe","response_id":"r"})");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->starting_after, -1);
  const Result<SocketMessage> rest = ParseSocketText(
      R"({"type":"subscribe","response_id":"r","starting_after":7,"stream_id":"s"})");
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->verb, SocketVerb::kSubscribe);
  EXPECT_EQ(rest->starting_after, 7);
  EXPECT_EQ(rest->stream_id, "s");
  const Result<SocketMessage> ping = ParseSocketText(R"({"type":"ping","id":"7"})");
  ASSERT_TRUE(ping.ok()) << ping.status();
  EXPECT_EQ(ping->id, "7");
  const Result<SocketMessage> auth = ParseSocketText(R"({"type":"auth","token":"secret"})");
  ASSERT_TRUE(auth.ok()) << auth.status();
  EXPECT_EQ(auth->verb, SocketVerb::kAuth);
  EXPECT_EQ(auth->token, "secret");

  EXPECT_EQ(RefusalOfSocket(R"({"type":"ping","response_id":"r"})"), "invalid_value response_id");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"response.cancel","response_id":"r","starting_after":1})"),
            "invalid_value starting_after");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"subscribe","response_id":"r","token":"t"})"),
            "invalid_value token");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"response.cancel"})"),
            "missing_required_parameter response_id");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"subscribe"})"), "missing_required_parameter response_id");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"auth"})"), "missing_required_parameter token");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"subscribe","job_id":"j","starting_after":1})"), "");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"subscribe","job_id":"j","response_id":"r"})"),
            "invalid_value job_id");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"ping","job_id":"j"})"), "invalid_value job_id");
}

TEST(SocketMessage, WhatIsNoMessageIsRefusedWithItsReason) {
  EXPECT_EQ(RefusalOfSocket("{"), "invalid_json ");
  EXPECT_EQ(RefusalOfSocket("[]"), "invalid_json ");
  EXPECT_EQ(RefusalOfSocket("{}"), "missing_required_parameter type");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"response.delete"})"), "invalid_value type");
  EXPECT_EQ(RefusalOfSocket(R"({"type":1})"), "invalid_value type");
  const std::string create = R"({"type":"response.create","model":"m","input":"hi")";
  EXPECT_EQ(RefusalOfSocket(create + R"(,"stream":false})"), "invalid_value stream");
  EXPECT_EQ(RefusalOfSocket(create + R"(,"stream":true})"), "");
  EXPECT_EQ(RefusalOfSocket(create + R"(,"background":true})"), "unsupported_parameter background");
  EXPECT_EQ(RefusalOfSocket(create + R"(,"background":false})"), "");
  EXPECT_EQ(RefusalOfSocket(create + R"(,"temperature":9})"), "invalid_value temperature");
  EXPECT_EQ(RefusalOfSocket(R"({"type":"response.create","model":"m"})"),
            "missing_required_parameter input");
  for (const char* bad : {R"("a b")", R"("")", R"("a\"")", "7"})
    EXPECT_EQ(RefusalOfSocket(create + ",\"stream_id\":" + bad + "}"), "invalid_value stream_id")
        << bad;
  EXPECT_EQ(RefusalOfSocket(create + ",\"stream_id\":\"" + std::string(256, 'a') + "\"}"), "");
  EXPECT_EQ(RefusalOfSocket(create + ",\"stream_id\":\"" + std::string(257, 'a') + "\"}"),
            "invalid_value stream_id");
}

TEST(SocketMessage, TheLaneOfARefusedMessageIsKnown) {
  std::string stream_id;
  EXPECT_FALSE(
      ParseSocketMessage(R"({"type":"response.create","stream_id":"s"})", {}, &stream_id).ok());
  EXPECT_EQ(stream_id, "s");
}

TEST(SocketMessage, AnErrorIsThatOfHttpWithItsStatusAndChannel) {
  const ErrorView view =
      ViewError(InvalidArgument("invalid_value", "no \"such\" thing").WithParam("input"));
  const std::string text = SocketError(view, "s");
  const Result<JsonDocument> document = ParseJson(text);
  ASSERT_TRUE(document.ok()) << text;
  EXPECT_EQ(
      text,
      R"({"type":"error","status":400,"error":{"message":"no \"such\" thing",)"
      R"("type":"invalid_request_error","param":"input","code":"invalid_value"},"stream_id":"s"})");
  EXPECT_EQ(WithStreamId(R"({"a":1})", ""), R"({"a":1})");
  EXPECT_EQ(SocketPong(""), R"({"type":"pong"})");
  EXPECT_EQ(SocketPong("a\""), R"({"type":"pong","id":"a\""})");
}

}  // namespace
}  // namespace tutti::protocol
