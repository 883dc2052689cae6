#include "services/responses/response_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/responses/events.h"
#include "services/responses/response_rows.h"

namespace tutti::responses {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ResponseBase BaseOf(bool background = false, bool turn = false) {
  ResponseBase base;
  base.owner = "t";
  base.state.id = "resp_1";
  base.state.item_id = "msg_1";
  base.state.created_s = 100;
  base.state.background = background;
  base.state.model = "small";
  base.state.instructions = "be brief";
  base.state.metadata = {{"k", "v"}, {"l", ""}};
  base.input = {{api::Role::kUser, "hello", ""}};
  if (turn) base.turn = TurnNote{"m1", 7, 2};
  return base;
}

std::vector<std::string> Types(const Response& response) {
  std::vector<std::string> types;
  const auto entries = response.log().Read(-1, 1000);
  EXPECT_TRUE(entries.ok());
  for (const auto& entry : *entries) types.emplace_back(protocol::EventType(entry->event));
  return types;
}

std::vector<std::string> Events(const Response& response) {
  std::vector<std::string> events;
  const auto entries = response.log().Read(-1, 1000);
  EXPECT_TRUE(entries.ok());
  for (const auto& entry : *entries)
    events.push_back(protocol::EventJson(entry->event, entry->sequence));
  return events;
}

protocol::ResponseState EndOf(const ResponseWriter& writer, protocol::ResponseStatus status) {
  protocol::ResponseState end = writer.response()->State();
  end.status = status;
  end.usage = api::Usage{5, 3, 2};
  if (status == protocol::ResponseStatus::kCompleted) end.completed_s = 103;
  if (status == protocol::ResponseStatus::kFailed) end.error_code = "overloaded";
  return end;
}

TEST(ResponseWriterTest, AnAnswersEventsComeInTheOrderOfTheResponsesApi) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Piece("Hel");
  writer.Piece("lo");
  EXPECT_EQ(writer.response()->State().text, "Hello");
  EXPECT_FALSE(writer.response()->ended());
  writer.End(EndOf(writer, protocol::ResponseStatus::kCompleted));
  EXPECT_THAT(
      Types(*writer.response()),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  EXPECT_TRUE(writer.response()->ended());
  EXPECT_EQ(writer.response()->State().usage->completion_tokens, 2);
}

TEST(ResponseWriterTest, ALogWithLogprobsIsMadeAgainFromItsRecord) {
  const auto token = [](TokenId id, const std::string& bytes) {
    return api::TokenLogprobs{{id, -0.1F * static_cast<float>(id), bytes},
                              {{id, -0.1F * static_cast<float>(id), bytes}, {9, -20, "\xE2\x82"}}};
  };
  ResponseBase base = BaseOf();
  base.state.logprobs = 2;
  ResponseWriter writer(std::make_shared<Response>(base, 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Reason("why");
  writer.Piece("Hel", {token(1, "Hel")});
  writer.Call({.index = 0, .id = "call_1", .name = "f", .arguments = "{}"});
  writer.Piece("lo", {token(2, "l"), token(3, "o")});
  writer.Piece("!");
  const protocol::ResponseState end = EndOf(writer, protocol::ResponseStatus::kCompleted);
  writer.End(end);
  const std::vector<std::string> events = Events(*writer.response());
  EXPECT_THAT(events, ::testing::Contains(HasSubstr(R"("delta":"lo","logprobs":[{"token":"l",)")));
  EXPECT_THAT(events, ::testing::Contains(HasSubstr(R"("delta":"!","logprobs":[])")));
  EXPECT_THAT(events.back(), HasSubstr(R"("top_logprobs":2)"));
  const auto record = DecodeRecord(EncodeRecord(writer.Record(end)));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(Events(*Replay(*record, 1 << 20)), events);
}

TEST(ResponseWriterTest, ATurnIsAcceptedFirstAndWaits) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(false, true), 1 << 20));
  writer.Open();
  EXPECT_THAT(Types(*writer.response()),
              ElementsAre("accepted", "response.created", "response.queued"));
  EXPECT_THAT(Events(*writer.response())[0], HasSubstr("\"turn\":7,\"position\":2"));
  EXPECT_EQ(writer.response()->State().status, protocol::ResponseStatus::kQueued);
  writer.Truncated({.turns = 3, .items = 7});
  writer.Begin();
  EXPECT_THAT(Events(*writer.response())[3], HasSubstr(R"("dropped_turns":3,"dropped_items":7})"));
  EXPECT_EQ(writer.response()->dropped(), (DroppedContext{3, 7}));
  EXPECT_EQ(writer.response()->State().status, protocol::ResponseStatus::kInProgress);
}

TEST(ResponseWriterTest, AnEmptyAnswerIsAnItemAndAFailureIsNot) {
  ResponseWriter empty(std::make_shared<Response>(BaseOf(), 1 << 20));
  empty.Open();
  empty.Begin();
  empty.End(EndOf(empty, protocol::ResponseStatus::kIncomplete));
  EXPECT_THAT(Types(*empty.response()),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done",
                          "response.incomplete"));
  ResponseWriter failed(std::make_shared<Response>(BaseOf(), 1 << 20));
  failed.Open();
  failed.End(EndOf(failed, protocol::ResponseStatus::kFailed));
  EXPECT_THAT(Types(*failed.response()), ElementsAre("response.created", "response.failed"));
}

TEST(ResponseWriterTest, ALogIsMadeAgainByteForByteFromItsRecord) {
  using protocol::ResponseStatus;
  for (const bool turn : {false, true}) {
    for (const ResponseStatus status : {ResponseStatus::kCompleted, ResponseStatus::kIncomplete,
                                        ResponseStatus::kFailed, ResponseStatus::kCancelled}) {
      ResponseWriter writer(std::make_shared<Response>(BaseOf(!turn, turn), 1 << 20));
      writer.Open();
      if (turn) writer.Truncated({.turns = 2, .items = 5});
      writer.Begin();
      for (const char* piece : {"a", "\xC3\xA9", "longer \"piece\""}) writer.Piece(piece);
      const protocol::ResponseState end = EndOf(writer, status);
      const ResponseRecord record = writer.Record(end);
      writer.End(end);
      const Result<ResponseRecord> stored = DecodeRecord(EncodeRecord(record));
      ASSERT_TRUE(stored.ok()) << stored.status();
      const std::shared_ptr<Response> again = Replay(*stored, 1 << 20);
      EXPECT_EQ(Events(*again), Events(*writer.response()));
      EXPECT_EQ(again->owner(), "t");
      EXPECT_EQ(again->base().input[0].content, "hello");
      EXPECT_EQ(again->dropped(), turn ? (DroppedContext{2, 5}) : DroppedContext{});
    }
  }
}

TEST(ResponseWriterTest, CallsFollowTheTextThatStandsBeforeThem) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Piece("So");
  writer.Call({0, "call_1", "f", ""});
  writer.Call({0, "", "", R"({"a")"});
  writer.Call({0, "", "", ":1}"});
  writer.Call({1, "call_2", "g", "{}"});
  EXPECT_EQ(writer.response()->State().calls,
            std::vector<protocol::OutputCall>(
                {{{"call_1", "f", R"({"a":1})"}, 2}, {{"call_2", "g", "{}"}, 2}}));
  writer.End(EndOf(writer, protocol::ResponseStatus::kCompleted));
  EXPECT_THAT(
      Types(*writer.response()),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"));
  const std::vector<std::string> events = Events(*writer.response());
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_THAT(events[i], HasSubstr("\"sequence_number\":" + std::to_string(i) + ","));
  EXPECT_THAT(events[8], HasSubstr(R"("output_index":1,"item":{"id":"fc_1_0")"));
  EXPECT_THAT(events[12], HasSubstr(R"("arguments":"{\"a\":1}","call_id":"call_1","name":"f")"));
  EXPECT_THAT(events[13], HasSubstr(R"("output_index":2,"item":{"id":"fc_1_1")"));
}

TEST(ResponseWriterTest, ReasoningStandsBeforeTheAnswerAsAnItem) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Reason("\n");
  writer.Reason("Wh");
  writer.Reason("y?");
  writer.Piece("So");
  writer.Call({0, "call_1", "f", "{}"});
  EXPECT_EQ(writer.response()->State().reasoning,
            std::vector<protocol::OutputReasoning>({{"\nWhy?", 0, 0}}));
  writer.End(EndOf(writer, protocol::ResponseStatus::kCompleted));
  EXPECT_THAT(Types(*writer.response()),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.delta", "response.reasoning_text.done",
                          "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.content_part.added",
                          "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "response.completed"));
  const std::vector<std::string> events = Events(*writer.response());
  for (size_t i = 0; i < events.size(); ++i)
    EXPECT_THAT(events[i], HasSubstr("\"sequence_number\":" + std::to_string(i) + ","));
  EXPECT_THAT(events[2], HasSubstr(R"("output_index":0,"item":{"id":"rs_1","type":"reasoning")"));
  EXPECT_THAT(events[4], HasSubstr(R"("delta":"\nWh")")) << "with what stood before it";
  EXPECT_THAT(events[8], HasSubstr(R"("status":"completed","summary":[])"));
  EXPECT_THAT(events[9], HasSubstr(R"("output_index":1,"item":{"id":"msg_1")"));
  EXPECT_THAT(events[15], HasSubstr(R"("output_index":2,"item":{"id":"fc_1_0")"));
}

TEST(ResponseWriterTest, ReasoningOfWhiteSpaceAloneIsNoItem) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Reason("\n");
  writer.Reason("\n");
  writer.Piece("So");
  writer.Reason("\n");
  writer.Piece(".");
  writer.End(EndOf(writer, protocol::ResponseStatus::kCompleted));
  EXPECT_TRUE(writer.response()->State().reasoning.empty());
  EXPECT_EQ(protocol::OutputOf(writer.response()->State()).size(), 1u);
  EXPECT_EQ(Types(*writer.response()).size(), 10u) << "one message with two deltas";
}

TEST(ResponseWriterTest, ACompletedAnswerOfReasoningHasAnEmptyMessage) {
  for (const auto& [status, dones] : std::vector<std::pair<protocol::ResponseStatus, int>>{
           {protocol::ResponseStatus::kCompleted, 2},
           {protocol::ResponseStatus::kIncomplete, 1},
           {protocol::ResponseStatus::kCancelled, 0}}) {
    ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
    writer.Open();
    writer.Begin();
    writer.Reason("Why?");
    writer.End(EndOf(writer, status));
    int seen = 0;
    for (const std::string& type : Types(*writer.response()))
      seen += type == "response.output_item.done" ? 1 : 0;
    EXPECT_EQ(seen, dones) << protocol::ResponseStatusName(status);
  }
}

TEST(ResponseWriterTest, ALogWithReasoningIsMadeAgainByteForByte) {
  using protocol::ResponseStatus;
  for (const ResponseStatus status : {ResponseStatus::kCompleted, ResponseStatus::kIncomplete,
                                      ResponseStatus::kFailed, ResponseStatus::kCancelled}) {
    for (const bool thinks_last : {false, true}) {
      ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
      writer.Open();
      writer.Begin();
      writer.Reason(" \n");
      writer.Reason("a");
      writer.Reason("\xC3\xA9");
      writer.Piece("So");
      writer.Reason("b \"c\"");
      writer.Piece(" be it");
      writer.Call({0, "call_1", "f", "{"});
      writer.Reason("d");
      writer.Call({0, "", "", "late"});
      writer.Call({1, "call_2", "g", "{}"});
      if (thinks_last) writer.Reason("e");
      protocol::ResponseState end = EndOf(writer, status);
      end.usage->reasoning_tokens = 4;
      const ResponseRecord record = writer.Record(end);
      writer.End(end);
      EXPECT_EQ(end.reasoning.size(), thinks_last ? 4u : 3u);
      const Result<ResponseRecord> stored = DecodeRecord(EncodeRecord(record));
      ASSERT_TRUE(stored.ok()) << stored.status();
      const std::shared_ptr<Response> again = Replay(*stored, 1 << 20);
      EXPECT_EQ(Events(*again), Events(*writer.response()));
      EXPECT_EQ(again->State().reasoning, end.reasoning);
      EXPECT_EQ(again->State().usage->reasoning_tokens, 4);
    }
  }
}

TEST(ResponseWriterTest, ARecordWithBrokenReasoningIsShownAsFarAsItGoes) {
  ResponseRecord record;
  record.base = BaseOf();
  record.end = record.base.state;
  record.end.status = protocol::ResponseStatus::kCompleted;
  record.end.text = "ab";
  record.end.calls = {{{"call_1", "f", "{}"}, 1}};
  for (const std::vector<protocol::OutputReasoning>& reasoning :
       std::vector<std::vector<protocol::OutputReasoning>>{
           {{"", 0, 0}}, {{"x", 9, 9}, {"y", 0, 0}}, {{"x", 0, 0}, {"y", 0, 0}}, {{" ", 0, 0}}}) {
    record.end.reasoning = reasoning;
    for (const std::vector<uint32_t>& pieces :
         {std::vector<uint32_t>{}, {1}, {1, 1}, {1, 1, 2}, {1, 1, 2, 1, 1}, {1, 2, 1}}) {
      record.pieces = pieces;
      EXPECT_TRUE(Replay(record, 1 << 20)->ended());
    }
  }
}

TEST(ResponseWriterTest, CallsAloneHaveNoMessage) {
  ResponseWriter writer(std::make_shared<Response>(BaseOf(), 1 << 20));
  writer.Open();
  writer.Begin();
  writer.Call({0, "call_1", "f", "{}"});
  writer.End(EndOf(writer, protocol::ResponseStatus::kCompleted));
  EXPECT_THAT(
      Types(*writer.response()),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"));
}

TEST(ResponseWriterTest, ALogWithCallsIsMadeAgainByteForByte) {
  using protocol::ResponseStatus;
  for (const ResponseStatus status :
       {ResponseStatus::kCompleted, ResponseStatus::kIncomplete, ResponseStatus::kFailed}) {
    ResponseBase base = BaseOf();
    base.state.tools = {{.name = "f", .description = "d", .parameters = "{}", .strict = true}};
    base.state.tool_choice = {api::ToolChoice::Kind::kNamed, "f"};
    base.state.parallel_tool_calls = false;
    base.input.push_back({api::Role::kAssistant, "", ""});
    base.input.back().tool_calls = {{"call_0", "f", "{}"}};
    base.input.push_back({api::Role::kTool, "42", ""});
    base.input.back().tool_call_id = "call_0";
    ResponseWriter writer(std::make_shared<Response>(base, 1 << 20));
    writer.Open();
    writer.Begin();
    writer.Call({0, "call_1", "f", R"({"a")"});
    writer.Call({0, "", "", ":1}"});
    writer.Piece("and ");
    writer.Piece("so");
    writer.Call({0, "", "", "late"});
    writer.Call({1, "call_2", "g", ""});
    writer.Call({1, "", "", "{"});
    const protocol::ResponseState end = EndOf(writer, status);
    const ResponseRecord record = writer.Record(end);
    writer.End(end);
    const Result<ResponseRecord> stored = DecodeRecord(EncodeRecord(record));
    ASSERT_TRUE(stored.ok()) << stored.status();
    const std::shared_ptr<Response> again = Replay(*stored, 1 << 20);
    EXPECT_EQ(Events(*again), Events(*writer.response()));
    EXPECT_EQ(again->State().calls, end.calls);
    EXPECT_EQ(again->base().input[1].tool_calls, base.input[1].tool_calls);
    EXPECT_EQ(again->base().input[2].tool_call_id, "call_0");
    EXPECT_EQ(again->base().state.tools, base.state.tools);
    EXPECT_EQ(again->base().state.tool_choice, base.state.tool_choice);
  }
}

TEST(ResponseWriterTest, ARecordWithFewerPiecesThanCallsIsShownAsFarAsItGoes) {
  ResponseRecord record;
  record.base = BaseOf();
  record.end = record.base.state;
  record.end.status = protocol::ResponseStatus::kCompleted;
  record.end.text = "ab";
  record.end.calls = {{{"call_1", "f", "{}"}, 9}, {{"call_2", "g", "{}"}, 0}};
  for (const std::vector<uint32_t>& pieces :
       {std::vector<uint32_t>{}, {1}, {2, 5}, {2, 2}, {2, 1}}) {
    record.pieces = pieces;
    EXPECT_TRUE(Replay(record, 1 << 20)->ended());
  }
}

TEST(ResponseWriterTest, ARecordThatIsBrokenGivesNoMoreThanItHas) {
  ResponseRecord record;
  record.base = BaseOf();
  record.end = record.base.state;
  record.end.status = protocol::ResponseStatus::kCompleted;
  record.end.text = "ab";
  record.pieces = {1, 5, 1};
  EXPECT_EQ(Replay(record, 1 << 20)->State().text, "ab");
  for (const char* text : {"", "{}", "{\"first\":{}}", "[1"})
    EXPECT_EQ(DecodeRecord(text).status().reason(), "record_corrupt") << text;
}

}  // namespace
}  // namespace tutti::responses
