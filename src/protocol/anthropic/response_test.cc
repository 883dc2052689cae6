// The output for clients of the Messages API, byte for byte.
#include "protocol/anthropic/response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The events of one answer, and what a writer makes of them.
class MessagesResponse : public ::testing::Test {
 protected:
  using Kind = api::StreamEvent::Kind;

  api::StreamEvent& Add(Kind kind) {
    events_.emplace_back().kind = kind;
    return events_.back();
  }
  void Text(const std::string& text) { Add(Kind::kToken).text = text; }
  void Thought(const std::string& text) { Add(Kind::kToken).reasoning = text; }
  void Call(int index, const std::string& id, const std::string& name,
            const std::string& arguments) {
    Add(Kind::kToken).tool_calls = {{index, id, name, arguments}};
  }
  void Ended(api::FinishReason reason = api::FinishReason::kStop) {
    Add(Kind::kChoiceEnd).finish_reason = reason;
    Add(Kind::kEnd).usage = {.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 6};
  }
  std::string Written(bool stream) {
    GenerationCall call;
    call.stream = stream;
    call.service_tier = "standard";
    call.requests.resize(1);
    const auto writer = MakeMessagesWriter(call, {"msg_1", "m", 0, ""});
    std::string out;
    for (const api::StreamEvent& event : events_) writer->OnEvent(0, event, &out);
    writer->OnDone(&out);
    return out;
  }
  static std::string Event(const std::string& type, const std::string& members) {
    return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + members + "}\n\n";
  }

  std::vector<api::StreamEvent> events_;
};

TEST_F(MessagesResponse, AWholeAnswerIsOneMessage) {
  Text("Hel");
  Text("lo");
  Ended();
  EXPECT_EQ(
      Written(false),
      R"({"id":"msg_1","type":"message","role":"assistant","model":"m",)"
      R"("content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,)"
      R"("usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
      R"("output_tokens":6,"service_tier":"standard"}})");
}

TEST_F(MessagesResponse, BlocksStandInTheOrderOfTheirPieces) {
  Thought("h");
  Thought("m");
  Text("Let me look.");
  Call(0, "toolu_1", "get", "");
  Call(0, "", "", R"({"a":)");
  Call(0, "", "", "1}");
  Call(1, "toolu_2", "now", "{}");
  Ended(api::FinishReason::kToolCalls);
  EXPECT_THAT(Written(false),
              HasSubstr(R"("content":[{"type":"thinking","thinking":"hm","signature":""},)"
                        R"({"type":"text","text":"Let me look."},)"
                        R"({"type":"tool_use","id":"toolu_1","name":"get","input":{"a":1}},)"
                        R"({"type":"tool_use","id":"toolu_2","name":"now","input":{}}],)"
                        R"("stop_reason":"tool_use","stop_sequence":null)"));
}

TEST_F(MessagesResponse, AStreamNamesItsEventsAndNumbersItsBlocks) {
  Add(Kind::kStarted).usage = {.prompt_tokens = 10, .cached_tokens = 4};
  Thought("hm");
  Text("Hi");
  Call(0, "toolu_1", "get", "");
  Call(0, "", "", R"({"a":1})");
  Ended(api::FinishReason::kToolCalls);
  EXPECT_EQ(
      Written(true),
      Event("message_start",
            R"(,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m",)"
            R"("content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":6,)"
            R"("cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0,)"
            R"("service_tier":"standard"}})") +
          Event("content_block_start",
                R"(,"index":0,"content_block":{"type":"thinking","thinking":"","signature":""})") +
          Event("ping", "") +
          Event("content_block_delta",
                R"(,"index":0,"delta":{"type":"thinking_delta","thinking":"hm"})") +
          Event("content_block_delta",
                R"(,"index":0,"delta":{"type":"signature_delta","signature":""})") +
          Event("content_block_stop", R"(,"index":0)") +
          Event("content_block_start", R"(,"index":1,"content_block":{"type":"text","text":""})") +
          Event("content_block_delta", R"(,"index":1,"delta":{"type":"text_delta","text":"Hi"})") +
          Event("content_block_stop", R"(,"index":1)") +
          Event("content_block_start", R"(,"index":2,"content_block":{"type":"tool_use",)"
                                       R"("id":"toolu_1","name":"get","input":{}})") +
          Event("content_block_delta",
                R"(,"index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"})") +
          Event("content_block_stop", R"(,"index":2)") +
          Event("message_delta", R"(,"delta":{"stop_reason":"tool_use","stop_sequence":null},)"
                                 R"("usage":{"input_tokens":6,"cache_creation_input_tokens":0,)"
                                 R"("cache_read_input_tokens":4,"output_tokens":6})") +
          Event("message_stop", ""));
}

TEST_F(MessagesResponse, NothingIsWrittenBeforeThereIsSomethingToShow) {
  GenerationCall call;
  call.stream = true;
  call.requests.resize(1);
  const auto writer = MakeMessagesWriter(call, {"msg_1", "m", 0, ""});
  std::string out;
  Add(Kind::kStarted);
  Text("");  // a character is still open
  for (const api::StreamEvent& event : events_) writer->OnEvent(0, event, &out);
  EXPECT_EQ(out, "") << "a failure here is an ordinary HTTP error";
  writer->OnDone(&out);
  EXPECT_TRUE(out.starts_with("event: message_start\n")) << out;
  EXPECT_THAT(out, Not(HasSubstr("content_block")));
}

TEST_F(MessagesResponse, TellsWhyTheAnswerEnded) {
  const auto stop = [&](api::FinishReason reason, auto what) {
    events_.clear();
    api::StreamEvent& end = Add(Kind::kChoiceEnd);
    end.finish_reason = reason;
    end.stop_reason = what;
    const std::string body = Written(false);
    const size_t from = body.find("\"stop_reason\"");
    return body.substr(from, body.find(",\"usage\"") - from);
  };
  using api::FinishReason;
  EXPECT_EQ(stop(FinishReason::kStop, std::monostate()),
            R"("stop_reason":"end_turn","stop_sequence":null)");
  EXPECT_EQ(stop(FinishReason::kStop, TokenId{5}),
            R"("stop_reason":"end_turn","stop_sequence":null)");
  EXPECT_EQ(stop(FinishReason::kStop, std::string("\n\n")),
            R"("stop_reason":"stop_sequence","stop_sequence":"\n\n")");
  EXPECT_EQ(stop(FinishReason::kLength, std::monostate()),
            R"("stop_reason":"max_tokens","stop_sequence":null)");
}

TEST_F(MessagesResponse, ArgumentsCutShortAreNoInput) {
  Call(0, "toolu_1", "get", R"({"a":)");
  Ended(api::FinishReason::kLength);
  EXPECT_THAT(Written(false), HasSubstr(R"("name":"get","input":{}}],"stop_reason":"max_tokens")"));
}

TEST_F(MessagesResponse, TextThatWasHeldBackComesWithTheEnd) {
  Text("a");
  Add(Kind::kChoiceEnd).text = "b";
  EXPECT_THAT(Written(false), HasSubstr(R"([{"type":"text","text":"ab"}])"));
  EXPECT_THAT(Written(true), HasSubstr(R"("delta":{"type":"text_delta","text":"b"})"));
}

TEST(AnthropicError, HasAnthropicsTypesForTheStatusesOfTheTable) {
  const auto type = [](std::string_view code) {
    return ViewError(Unavailable(code, "x"), {.form = ErrorForm::kAnthropic}).type;
  };
  EXPECT_EQ(type("invalid_value"), "invalid_request_error");
  EXPECT_EQ(type("method_not_allowed"), "invalid_request_error");
  EXPECT_EQ(type("invalid_api_key"), "authentication_error");
  EXPECT_EQ(type("insufficient_scope"), "permission_error");
  EXPECT_EQ(type("model_not_found"), "not_found_error");
  EXPECT_EQ(type("request_too_large"), "request_too_large");
  EXPECT_EQ(type("rate_limit_exceeded"), "rate_limit_error");
  EXPECT_EQ(type("internal_error"), "api_error");
  EXPECT_EQ(type("not_implemented"), "api_error");
  EXPECT_EQ(type("queue_full"), "overloaded_error");
  EXPECT_EQ(type("draining"), "overloaded_error");
  EXPECT_EQ(type("deadline_exceeded"), "timeout_error");
}

TEST(AnthropicError, TheMessageNamesTheField) {
  ErrorView view = ViewError(InvalidArgument("invalid_value", "must be a list").WithParam("tools"),
                             {.form = ErrorForm::kAnthropic});
  EXPECT_EQ(ErrorBody(view), R"({"type":"error","error":{"type":"invalid_request_error",)"
                             R"("message":"tools: must be a list"},"request_id":null})");
  view = ViewError(InvalidArgument("invalid_value", "tools must be a list").WithParam("tools"),
                   {.form = ErrorForm::kAnthropic});
  view.request_id = "req-1";
  EXPECT_EQ(ErrorBody(view), R"({"type":"error","error":{"type":"invalid_request_error",)"
                             R"("message":"tools must be a list"},"request_id":"req-1"})");
}

}  // namespace
}  // namespace tutti::protocol
