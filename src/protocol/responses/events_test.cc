#include "protocol/responses/events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

ResponseState Running() {
  ResponseState state;
  state.id = "resp_1";
  state.item_id = "msg_1";
  state.created_s = 1700000000;
  state.model = "m";
  return state;
}

ResponseState Ended(ResponseStatus status, std::string text) {
  ResponseState state = Running();
  state.status = status;
  state.text = std::move(text);
  state.usage = api::Usage{10, 4, 3};
  if (status == ResponseStatus::kCompleted) state.completed_s = 1700000002;
  return state;
}

Json Read(const std::string& text) {
  const Result<JsonDocument> document = ParseJson(text);
  EXPECT_TRUE(document.ok()) << document.status() << ": " << text;
  return document.ok() ? Json(document->root()) : Json();
}

std::string Text(const Json& json, const char* member) {
  const Json& value = json.at(member);
  return {value.as_string().data(), value.as_string().size()};
}

TEST(ResponseJson, ACompletedResponseHasTheDocumentedShape) {
  ResponseState state = Ended(ResponseStatus::kCompleted, "Hi \"there\"\n");
  state.instructions = "Be brief.";
  state.max_output_tokens = 64;
  state.temperature = 0;
  state.metadata = {{"b", "2"}, {"a", "1"}};
  state.conversation = "conv_1";
  EXPECT_EQ(
      ResponseJson(state),
      R"({"id":"resp_1","object":"response","created_at":1700000000,"completed_at":1700000002,)"
      R"("status":"completed","background":false,"error":null,"incomplete_details":null,)"
      R"("instructions":"Be brief.","max_output_tokens":64,"model":"m",)"
      R"("output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed",)"
      R"("content":[{"type":"output_text","text":"Hi \"there\"\n","annotations":[],"logprobs":[]}]}],)"
      R"("parallel_tool_calls":true,"previous_response_id":null,"conversation":{"id":"conv_1"},)"
      R"("reasoning":{"effort":null,"summary":null},"service_tier":"default","store":true,)"
      R"("temperature":0.0,"top_p":1.0,"text":{"format":{"type":"text"}},"tools":[],)"
      R"("tool_choice":"auto","truncation":"disabled","metadata":{"b":"2","a":"1"},)"
      R"("usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},)"
      R"("output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":13}})");
}

TEST(ResponseJson, AQueuedResponseHasNoOutputAndNothingThatIsNotKnown) {
  ResponseState state = Running();
  state.status = ResponseStatus::kQueued;
  state.background = true;
  const Json json = Read(ResponseJson(state));
  EXPECT_EQ(Text(json, "status"), "queued");
  EXPECT_TRUE(json.at("background").as_bool());
  EXPECT_TRUE(json.at("output").as_array().empty());
  for (const char* name : {"completed_at", "error", "incomplete_details", "instructions",
                           "max_output_tokens", "previous_response_id", "conversation", "usage"}) {
    EXPECT_TRUE(json.at(name).is_null()) << name;
  }
}

TEST(ResponseJson, EachEndShowsTheItemAsItWasLeft) {
  struct Case {
    ResponseStatus status;
    std::string text, item;  // item: its status, empty = none is shown
  };
  for (const Case& c : std::vector<Case>{{ResponseStatus::kInProgress, "", ""},
                                         {ResponseStatus::kInProgress, "so far", "in_progress"},
                                         {ResponseStatus::kCompleted, "", "completed"},
                                         {ResponseStatus::kIncomplete, "cut", "incomplete"},
                                         {ResponseStatus::kFailed, "", ""},
                                         {ResponseStatus::kFailed, "part", "incomplete"},
                                         {ResponseStatus::kCancelled, "", ""},
                                         {ResponseStatus::kCancelled, "part", "incomplete"}}) {
    const Json json = Read(ResponseJson(Ended(c.status, c.text)));
    EXPECT_EQ(Text(json, "status"), ResponseStatusName(c.status));
    const JsonArray& output = json.at("output").as_array();
    ASSERT_EQ(output.empty(), c.item.empty()) << ResponseStatusName(c.status) << " " << c.text;
    if (output.empty()) continue;
    EXPECT_EQ(Text(output[0], "status"), c.item);
    EXPECT_EQ(Text(output[0].at("content").at(0), "text"), c.text);
  }
}

TEST(ResponseJson, AFailureAndAnEarlyEndSayWhy) {
  ResponseState state = Ended(ResponseStatus::kFailed, "");
  state.error_code = "server_error";
  state.error_message = "it broke";
  Json json = Read(ResponseJson(state));
  EXPECT_EQ(PrintJson(json.at("error")), R"({"code":"server_error","message":"it broke"})");
  state = Ended(ResponseStatus::kIncomplete, "a");
  state.incomplete_reason = "max_output_tokens";
  json = Read(ResponseJson(state));
  EXPECT_EQ(PrintJson(json.at("incomplete_details")), R"({"reason":"max_output_tokens"})");
  EXPECT_TRUE(json.at("error").is_null());
}

SharedItem Shared(OutputItem item) { return std::make_shared<const OutputItem>(std::move(item)); }

TEST(ResponseEvents, TheEventsOfATextHaveTheDocumentedShapes) {
  const OutputItem item{.id = "msg_1", .text = "Hello"};
  EXPECT_EQ(EventJson(ItemAddedEvent{0, Shared(item)}, 2),
            R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,)"
            R"("item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress",)"
            R"("content":[]}})");
  EXPECT_EQ(EventJson(PartAddedEvent{0, Shared(item)}, 3),
            R"({"type":"response.content_part.added","sequence_number":3,"item_id":"msg_1",)"
            R"("output_index":0,"content_index":0,)"
            R"("part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})");
  EXPECT_EQ(EventJson(TextDeltaEvent{0, "msg_1", "Hel"}, 4),
            R"({"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1",)"
            R"("output_index":0,"content_index":0,"delta":"Hel","logprobs":[]})");
  EXPECT_EQ(EventJson(TextDoneEvent{0, Shared(item)}, 5),
            R"({"type":"response.output_text.done","sequence_number":5,"item_id":"msg_1",)"
            R"("output_index":0,"content_index":0,"text":"Hello","logprobs":[]})");
  EXPECT_EQ(EventJson(PartDoneEvent{0, Shared(item)}, 6),
            R"({"type":"response.content_part.done","sequence_number":6,"item_id":"msg_1",)"
            R"("output_index":0,"content_index":0,)"
            R"("part":{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}})");
  EXPECT_EQ(
      EventJson(ItemDoneEvent{0, Shared(item), "completed"}, 7),
      R"({"type":"response.output_item.done","sequence_number":7,"output_index":0,)"
      R"("item":{"id":"msg_1","type":"message","role":"assistant","status":"completed",)"
      R"("content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}})");
}

TEST(ResponseEvents, LogprobsStandInTheTextsEventsAndParts) {
  const api::TokenLogprobs token{.chosen = {7, -0.5F, "Hel"},
                                 .top = {{7, -0.5F, "Hel"}, {9, -1.5F, "\xE2"}}};
  const std::string shown =
      R"("logprobs":[{"token":"Hel","logprob":-0.5,"bytes":[72,101,108],"top_logprobs":[)"
      R"({"token":"Hel","logprob":-0.5,"bytes":[72,101,108]},)"
      R"({"token":"bytes:\\xe2","logprob":-1.5,"bytes":[226]}]}])";
  const OutputItem item{.id = "msg_1", .text = "Hel", .tokens = {token}};
  const TextDeltaEvent delta{.item_id = "msg_1", .text = "Hel", .tokens = {token}};
  for (const std::string& event :
       {EventJson(delta, 4), EventJson(TextDoneEvent{0, Shared(item)}, 5),
        EventJson(PartDoneEvent{0, Shared(item)}, 6),
        EventJson(ItemDoneEvent{0, Shared(item), "completed"}, 7)})
    EXPECT_NE(event.find(shown), std::string::npos) << event;
  EXPECT_NE(EventJson(PartAddedEvent{0, Shared(item)}, 3).find(R"("logprobs":[])"),
            std::string::npos);
  EXPECT_GT(EventBytes(delta), EventBytes(TextDeltaEvent{0, "msg_1", "Hel"}));
}

TEST(ResponseJson, EachMessageHasTheLogprobsOfItsText) {
  ResponseState state = Ended(ResponseStatus::kCompleted, "one two");
  state.logprobs = 0;
  state.tokens = {{{{1, -1, "one"}, {}}, 0}, {{{2, -2, " "}, {}}, 3}, {{{3, -3, "two"}, {}}, 4}};
  state.calls = {{{"call_1", "f", "{}"}, 4}};
  const std::vector<OutputItem> items = OutputOf(state);
  ASSERT_EQ(items.size(), 3u);
  ASSERT_EQ(items[0].tokens.size(), 2u);
  EXPECT_TRUE(items[1].tokens.empty());
  ASSERT_EQ(items[2].tokens.size(), 1u);
  EXPECT_EQ(items[2].tokens[0].chosen.token, 3);
  EXPECT_EQ(Read(ResponseJson(state)).at("top_logprobs").to_number<int>(), 0);
}

TEST(ResponseEvents, EventsOfACallHaveTheDocumentedShapes) {
  const OutputItem item{.id = "fc_1_0", .call = api::ToolCall{"call_1", "f", R"({"a":1})"}};
  EXPECT_EQ(EventJson(ItemAddedEvent{1, Shared(item)}, 2),
            R"({"type":"response.output_item.added","sequence_number":2,"output_index":1,)"
            R"("item":{"id":"fc_1_0","type":"function_call","status":"in_progress",)"
            R"("arguments":"","call_id":"call_1","name":"f"}})");
  EXPECT_EQ(EventJson(ArgumentsDeltaEvent{1, "fc_1_0", R"({"a")"}, 3),
            R"({"type":"response.function_call_arguments.delta","sequence_number":3,)"
            R"("item_id":"fc_1_0","output_index":1,"delta":"{\"a\""})");
  EXPECT_EQ(EventJson(ArgumentsDoneEvent{1, Shared(item)}, 4),
            R"({"type":"response.function_call_arguments.done","sequence_number":4,)"
            R"("item_id":"fc_1_0","output_index":1,"arguments":"{\"a\":1}"})");
  EXPECT_EQ(EventJson(ItemDoneEvent{1, Shared(item), "completed"}, 5),
            R"({"type":"response.output_item.done","sequence_number":5,"output_index":1,)"
            R"("item":{"id":"fc_1_0","type":"function_call","status":"completed",)"
            R"("arguments":"{\"a\":1}","call_id":"call_1","name":"f"}})");
}

TEST(ResponseEvents, EventsOfReasoningHaveTheDocumentedShapes) {
  const OutputItem item{.id = "rs_1", .text = "Why?", .reasoning = true};
  EXPECT_EQ(EventJson(ItemAddedEvent{0, Shared(item)}, 2),
            R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,)"
            R"("item":{"id":"rs_1","type":"reasoning","status":"in_progress",)"
            R"("summary":[],"content":[]}})");
  EXPECT_EQ(EventJson(PartAddedEvent{0, Shared(item)}, 3),
            R"({"type":"response.content_part.added","sequence_number":3,"item_id":"rs_1",)"
            R"("output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}})");
  EXPECT_EQ(EventJson(TextDeltaEvent{0, "rs_1", "Why", true}, 4),
            R"({"type":"response.reasoning_text.delta","sequence_number":4,"item_id":"rs_1",)"
            R"("output_index":0,"content_index":0,"delta":"Why"})");
  EXPECT_EQ(EventJson(TextDoneEvent{0, Shared(item)}, 5),
            R"({"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_1",)"
            R"("output_index":0,"content_index":0,"text":"Why?"})");
  EXPECT_EQ(EventJson(PartDoneEvent{0, Shared(item)}, 6),
            R"({"type":"response.content_part.done","sequence_number":6,"item_id":"rs_1",)"
            R"("output_index":0,"content_index":0,)"
            R"("part":{"type":"reasoning_text","text":"Why?"}})");
  EXPECT_EQ(EventJson(ItemDoneEvent{0, Shared(item), "completed"}, 7),
            R"({"type":"response.output_item.done","sequence_number":7,"output_index":0,)"
            R"("item":{"id":"rs_1","type":"reasoning","status":"completed","summary":[],)"
            R"("content":[{"type":"reasoning_text","text":"Why?"}]}})");
}

TEST(ResponseJson, ReasoningStandsWhereTheModelThought) {
  ResponseState state = Ended(ResponseStatus::kCompleted, "one two");
  state.calls = {{{"call_1", "f", "{}"}, 3}, {{"call_2", "g", "{}"}, 3}};
  state.reasoning = {{"a", 0, 0}, {"b", 3, 1}, {"c", 4, 2}, {"d", 7, 2}};
  std::string order;
  for (const OutputItem& item : OutputOf(state))
    order += item.id + (item.reasoning ? "=" + item.text : "") + " ";
  EXPECT_EQ(order, "rs_1=a msg_1 fc_1_0 rs_1_1=b fc_1_1 msg_1_1 rs_1_2=c msg_1_2 rs_1_3=d ");
  state.calls.clear();
  state.reasoning = {{"Why?", 0, 0}};
  const Json json = Read(ResponseJson(state));
  ASSERT_EQ(json.at("output").as_array().size(), 2u);
  EXPECT_EQ(PrintJson(json.at("output").at(0)),
            R"({"id":"rs_1","type":"reasoning","status":"completed","summary":[],)"
            R"("content":[{"type":"reasoning_text","text":"Why?"}]})");
  EXPECT_EQ(Text(json.at("output").at(1), "id"), "msg_1");
}

TEST(ResponseJson, ReasoningAloneIsAnswerOnlyWhereItWasCut) {
  for (const auto& [status, items] :
       std::vector<std::pair<ResponseStatus, size_t>>{{ResponseStatus::kInProgress, 1},
                                                      {ResponseStatus::kCompleted, 2},
                                                      {ResponseStatus::kIncomplete, 1},
                                                      {ResponseStatus::kFailed, 1},
                                                      {ResponseStatus::kCancelled, 1}}) {
    ResponseState state = Ended(status, "");
    state.reasoning = {{"Why", 0, 0}};
    const Json json = Read(ResponseJson(state));
    const JsonArray& output = json.at("output").as_array();
    ASSERT_EQ(output.size(), items) << ResponseStatusName(status);
    EXPECT_EQ(Text(output[0], "status"), items == 2 ? "completed" : LastItemStatus(status));
    if (items == 2) {
      EXPECT_EQ(Text(output[1], "type"), "message");
    }
  }
}

TEST(ResponseJson, ReasoningOfABrokenRecordGivesNoEmptyItem) {
  ResponseState state = Ended(ResponseStatus::kCompleted, "ab");
  state.reasoning = {{"", 0, 0}, {"x", 99, 99}};
  const std::vector<OutputItem> items = OutputOf(state);
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].text, "ab");
  EXPECT_EQ(items[1].id, "rs_1");
}

TEST(ResponseJson, TextAndCallsAreItemsInTheirOrder) {
  ResponseState state = Ended(ResponseStatus::kIncomplete, "one two");
  state.calls = {{{"call_1", "f", "{}"}, 3}, {{"call_2", "g", "{}"}, 3}, {{"call_3", "h", "{"}, 7}};
  const std::vector<OutputItem> items = OutputOf(state);
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].id, "msg_1");
  EXPECT_EQ(items[0].text, "one");
  EXPECT_EQ(items[1].id, "fc_1_0");
  EXPECT_EQ(items[2].call->name, "g");
  EXPECT_EQ(items[3].id, "msg_1_1");
  EXPECT_EQ(items[3].text, " two");
  EXPECT_EQ(items[4].id, "fc_1_2");
  const Json json = Read(ResponseJson(state));
  const JsonArray& output = json.at("output").as_array();
  ASSERT_EQ(output.size(), 5u);
  EXPECT_EQ(Text(output[0], "status"), "completed");
  EXPECT_EQ(Text(output[4], "status"), "incomplete") << "the last one alone was cut";
  EXPECT_EQ(Text(output[4], "arguments"), "{");
}

TEST(ResponseJson, CallsAloneAreTheWholeOutput) {
  ResponseState state = Ended(ResponseStatus::kCompleted, "");
  state.calls = {{{"call_1", "f", "{}"}, 0}};
  const Json json = Read(ResponseJson(state));
  ASSERT_EQ(json.at("output").as_array().size(), 1u);
  EXPECT_EQ(PrintJson(json.at("output").at(0)),
            R"({"id":"fc_1_0","type":"function_call","status":"completed","arguments":"{}",)"
            R"("call_id":"call_1","name":"f"})");
}

TEST(ResponseJson, ToolsAreEchoedInTheirFlatForm) {
  ResponseState state = Running();
  state.tools = {{.name = "f",
                  .description = "d",
                  .parameters = R"({"type":"object","b":1,"a":2})",
                  .strict = true},
                 {.name = "g"}};
  state.parallel_tool_calls = false;
  const auto shown = [&] { return ResponseJson(state); };
  EXPECT_NE(shown().find(R"("tools":[{"type":"function","name":"f","description":"d",)"
                         R"("parameters":{"type":"object","b":1,"a":2},"strict":true},)"
                         R"({"type":"function","name":"g","description":null,)"
                         R"("parameters":null,"strict":false}],"tool_choice":"auto")"),
            std::string::npos)
      << shown();
  EXPECT_NE(shown().find(R"("parallel_tool_calls":false)"), std::string::npos);
  using Kind = api::ToolChoice::Kind;
  state.tool_choice = {Kind::kNone, ""};
  EXPECT_NE(shown().find(R"("tool_choice":"none")"), std::string::npos);
  state.tool_choice = {Kind::kRequired, ""};
  EXPECT_NE(shown().find(R"("tool_choice":"required")"), std::string::npos);
  state.tool_choice = {Kind::kNamed, "g"};
  EXPECT_NE(shown().find(R"("tool_choice":{"type":"function","name":"g"})"), std::string::npos);
}

TEST(ResponseEvents, ALifecycleEventCarriesTheResponseAsGetShowsIt) {
  for (const auto status :
       {ResponseStatus::kQueued, ResponseStatus::kInProgress, ResponseStatus::kCompleted,
        ResponseStatus::kIncomplete, ResponseStatus::kFailed, ResponseStatus::kCancelled}) {
    const ResponseState state = Ended(status, "x");
    const LifecycleEvent typed{false, std::make_shared<const ResponseState>(state)};
    EXPECT_EQ(IsTerminal(typed), IsFinal(status));
    const std::string event = EventJson(typed, 8);
    EXPECT_EQ(event, R"({"type":")" + std::string(LifecycleType(status)) +
                         R"(","sequence_number":8,"response":)" + ResponseJson(state) + "}");
    EXPECT_EQ("response." + std::string(ResponseStatusName(status)), LifecycleType(status));
    EXPECT_EQ(IsFinal(status),
              status != ResponseStatus::kQueued && status != ResponseStatus::kInProgress);
  }
  const LifecycleEvent created{true, std::make_shared<const ResponseState>(Running())};
  EXPECT_TRUE(
      EventJson(created, 0).starts_with(R"({"type":"response.created","sequence_number":0,)"));
}

TEST(ResponseEvents, AnItemCutShortIsIncomplete) {
  for (const auto status :
       {ResponseStatus::kIncomplete, ResponseStatus::kFailed, ResponseStatus::kCancelled})
    EXPECT_EQ(LastItemStatus(status), "incomplete") << ResponseStatusName(status);
  EXPECT_EQ(LastItemStatus(ResponseStatus::kCompleted), "completed");
  EXPECT_EQ(LastItemStatus(ResponseStatus::kInProgress), "in_progress");
}

TEST(ResponseEvents, MembersOfSomeReadersStandBehindTheOthers) {
  const TextDeltaEvent event{0, "msg_1", "}"};
  const std::string plain =
      R"({"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1",)"
      R"("output_index":0,"content_index":0,"delta":"}","logprobs":[])";
  EXPECT_EQ(EventJson(event, 4), plain + "}");
  EXPECT_EQ(EventJson(event, 4, {.padding = 3}), plain + R"(,"obfuscation":"xxx"})");
  EXPECT_EQ(EventJson(event, 4, {.first_sequence = 2}), plain + R"(,"first_sequence_number":2})");
}

TEST(ResponseEvents, AnotherNumberChangesNothingElse) {
  const TextDeltaEvent event{0, "msg_1", "say \"sequence_number\":7"};
  std::string other = EventJson(event, 9);
  EXPECT_EQ(other.replace(other.find(":9,"), 3, ":10,"), EventJson(event, 10));
}

TEST(ResponseEvents, TheMemoryOfAnEventGrowsWithItsTexts) {
  const std::string text(1000, 'x');
  const size_t base = EventBytes(TextDeltaEvent{0, "msg_1", ""});
  EXPECT_EQ(EventBytes(TextDeltaEvent{0, "msg_1", text}), base + 1000);
  EXPECT_EQ(EventBytes(ArgumentsDeltaEvent{0, "msg_1", text}), base + 1000);
  const OutputItem empty{.id = "fc_1", .call = api::ToolCall{"c", "f", ""}};
  const OutputItem full{.id = "fc_1", .text = text, .call = api::ToolCall{"c", "f", text}};
  EXPECT_EQ(EventBytes(ItemDoneEvent{0, Shared(full), "completed"}),
            EventBytes(ItemDoneEvent{0, Shared(empty), "completed"}) + 2000);
  ResponseState state = Running();
  const auto bytes = [&] {
    return EventBytes(LifecycleEvent{false, std::make_shared<const ResponseState>(state)});
  };
  const size_t before = bytes();
  state.text = text;
  state.instructions = text;
  state.metadata = {{"key", text}};
  state.tools = {{.name = "f", .parameters = text}};
  state.calls = {{{"c", "f", text}, 0}};
  state.reasoning = {{text, 0, 0}};
  EXPECT_GE(bytes(), before + 6000);
  EXPECT_LT(bytes(), before + 7000);
}

TEST(ResponseEvents, AcceptedNamesTheTurnAndItsPlace) {
  EXPECT_EQ(EventJson(AcceptedEvent{"uuid \"1\"", "resp_1", 7, 2}, 0),
            R"({"type":"accepted","id":"uuid \"1\"","response_id":"resp_1","turn":7,"position":2,)"
            R"("sequence_number":0})");
}

TEST(ResponseEvents, AnErrorIsFlatAndSaysWhenToComeBack) {
  const Status busy = ResourceExhausted("rate_limit_exceeded", "20 of 20 in 60 s")
                          .WithRetryAfter(std::chrono::milliseconds(1200));
  EXPECT_EQ(ErrorEvent(std::nullopt, busy, "id1"),
            R"({"type":"error","code":"rate_limit_exceeded","message":"20 of 20 in 60 s",)"
            R"("param":null,"retry_after_ms":1200,"id":"id1"})");
  const Status bad = InvalidArgument("invalid_value", "no").WithParam("input");
  EXPECT_EQ(ErrorEvent(3, bad, ""),
            R"({"type":"error","sequence_number":3,"code":"invalid_value","message":"no",)"
            R"("param":"input"})");
}

TEST(ResponseEvents, AFailureOfOursIsToldWithoutItsDetails) {
  const std::string event = ErrorEvent(std::nullopt, Internal("/secret/path: errno 5"), "");
  EXPECT_EQ(event.find("secret"), std::string::npos) << event;
  EXPECT_NE(event.find(R"("code":"internal_error")"), std::string::npos) << event;
}

TEST(ResponseEvents, WhateverTheTextHoldsTheEventIsJson) {
  const std::string odd("\xFF\x00\x1F\"\\\xE2\x82 \xF0\x9F\x98\x80\x7F", 14);
  for (const std::string& event :
       {EventJson(TextDeltaEvent{0, "msg_1", odd}, 0),
        EventJson(TextDoneEvent{0, Shared({.id = "msg_1", .text = odd})}, 0),
        EventJson(TextDeltaEvent{0, "rs_1", odd, true}, 0),
        EventJson(ArgumentsDeltaEvent{0, "fc_1", odd}, 0),
        EventJson(TextDoneEvent{0, Shared({.id = "rs_1", .text = odd, .reasoning = true})}, 0),
        EventJson(ItemDoneEvent{0, Shared({.id = "fc_1", .call = api::ToolCall{odd, odd, odd}}),
                                "completed"},
                  0),
        ResponseJson(Ended(ResponseStatus::kCancelled, odd)),
        EventJson(AcceptedEvent{odd, odd, 1, 0}, 0)}) {
    EXPECT_TRUE(ParseJson(event).ok()) << event;
  }
}

}  // namespace
}  // namespace tutti::protocol
