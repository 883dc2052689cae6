#include "protocol/anthropic/message_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using ::testing::ElementsAre;

class MessageBatch : public ::testing::Test {
 protected:
  static Result<MessageBatchCreate> Parse(const std::string& requests) {
    ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(R"({"requests":[)" + requests + "]}"));
    return ParseMessageBatch(document.root(), {});
  }
  static std::string Request(const std::string& id, const std::string& members = "",
                             const std::string& model = "m") {
    return R"({"custom_id":")" + id + R"(","params":{"model":")" + model +
           R"(","max_tokens":9,"messages":[{"role":"user","content":"hi"}])" + members + "}}";
  }
  static std::string Refusal(const std::string& requests) {
    const Status status = Parse(requests).status();
    return status.reason() + " " + status.param();
  }
  static BatchView View(BatchState state) {
    BatchView view;
    view.id = "msgbatch_1";
    view.endpoint = kMessagesEndpoint;
    view.state = state;
    view.created_ms = 1700000000000;
    view.expires_ms = 1700086400000;
    view.input_lines = 5;
    return view;
  }
};

TEST_F(MessageBatch, RequestsBecomeLinesOfAnInput) {
  const Result<MessageBatchCreate> create =
      Parse(Request("a") + "," + Request("b", R"(,"x":1)", "n") + "," + Request("c"));
  ASSERT_TRUE(create.ok()) << create.status();
  EXPECT_THAT(create->models, ElementsAre("m", "n"));
  EXPECT_THAT(create->ignored, ElementsAre("requests[1].params.x"));
  std::string_view rest = create->input;
  for (const char* const id : {"a", "b", "c"}) {
    const size_t end = rest.find('\n');
    ASSERT_NE(end, std::string_view::npos);
    const Result<BatchLine> line = ReadBatchLine(rest.substr(0, end), kMessagesEndpoint);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->custom_id, id);
    rest.remove_prefix(end + 1);
  }
  EXPECT_TRUE(rest.empty());
}

TEST_F(MessageBatch, AWrongRequestRefusesTheBatchByItsPath) {
  EXPECT_EQ(Refusal(""), "invalid_value requests");
  EXPECT_EQ(Refusal(Request("a") + "," + Request("a")), "invalid_value requests[1].custom_id");
  EXPECT_EQ(Refusal(Request("a", R"(,"temperature":2)")),
            "invalid_value requests[0].params.temperature");
  EXPECT_EQ(Refusal(Request("a", R"(,"stream":true)")),
            "unsupported_parameter requests[0].params.stream");
  EXPECT_EQ(Refusal(R"({"custom_id":"a","params":1})"), "invalid_value requests[0].params");
  EXPECT_EQ(Refusal(R"({"custom_id":"a"})"), "missing_required_parameter requests[0].params");
  EXPECT_EQ(Refusal(Request("a", R"(,"system":")" + std::string(1 << 20, 'x') + "\"")),
            "invalid_value requests[0]");
}

TEST_F(MessageBatch, ShowsHowFarItHasCome) {
  BatchView view = View(BatchState::kInProgress);
  view.total = 5;
  view.completed = 2;
  view.failed = 1;
  EXPECT_EQ(MessageBatchJson(view),
            R"({"id":"msgbatch_1","type":"message_batch","processing_status":"in_progress",)"
            R"("request_counts":{"processing":2,"succeeded":2,"errored":1,"canceled":0,)"
            R"("expired":0},"ended_at":null,"created_at":"2023-11-14T22:13:20Z",)"
            R"("expires_at":"2023-11-15T22:13:20Z","archived_at":null,)"
            R"("cancel_initiated_at":null,"results_url":null})");
  const auto has = [&](const std::string& part) {
    return MessageBatchJson(view).find(part) != std::string::npos;
  };
  view.state = BatchState::kCancelled;
  view.cancelling_ms = view.cancelled_ms = 1700000001000;
  view.output_file = "file-1";
  EXPECT_TRUE(has(R"("processing_status":"ended")")) << MessageBatchJson(view);
  EXPECT_TRUE(has(R"("processing":0,"succeeded":2,"errored":1,"canceled":2,"expired":0)"));
  EXPECT_TRUE(has(R"("ended_at":"2023-11-14T22:13:21Z")"));
  EXPECT_TRUE(has(R"("results_url":"/v1/messages/batches/msgbatch_1/results")"));
  view = View(BatchState::kExpired);
  EXPECT_TRUE(has(R"("expired":5)"));
  view = View(BatchState::kValidating);
  EXPECT_TRUE(has(R"("processing":5)")) << "its lines are not counted yet";
}

TEST_F(MessageBatch, AListNamesItsEnds) {
  EXPECT_EQ(MessageBatchListJson({}, false),
            R"({"data":[],"has_more":false,"first_id":null,"last_id":null})");
  const std::vector<BatchView> views = {View(BatchState::kInProgress)};
  EXPECT_TRUE(MessageBatchListJson(views, true)
                  .ends_with(R"("has_more":true,"first_id":"msgbatch_1","last_id":"msgbatch_1"})"));
  IgnoredFields ignored;
  const auto query = [&](const std::string& name, const std::string& value) {
    const std::vector<QueryParameter> parameters = {{name, value}};
    return ParseMessageBatchListQuery(parameters, {}, &ignored);
  };
  EXPECT_EQ(query("limit", "1000")->limit, 1000);
  EXPECT_EQ(query("limit", "1001").status().param(), "limit");
  EXPECT_EQ(query("after_id", "x")->after, "x");
  EXPECT_EQ(query("before_id", "x").status().reason(), "unsupported_parameter");
}

TEST_F(MessageBatch, EachRequestHasOneResult) {
  const auto line = [](int status, const std::string& body, BatchState ending) {
    return MessageBatchResultLine("a", status, body, ending);
  };
  EXPECT_EQ(line(200, R"({"id":"msg_1"})", BatchState::kCompleted),
            R"({"custom_id":"a","result":{"type":"succeeded","message":{"id":"msg_1"}}})"
            "\n");
  EXPECT_EQ(line(0, "", BatchState::kExpired),
            "{\"custom_id\":\"a\",\"result\":{\"type\":\"expired\"}}\n");
  EXPECT_EQ(line(0, "", BatchState::kCancelled),
            "{\"custom_id\":\"a\",\"result\":{\"type\":\"canceled\"}}\n");
  const std::string error = ErrorBody(
      ViewError(InvalidArgument("invalid_value", "is wrong").WithParam("max_tokens"), {}));
  EXPECT_EQ(line(400, error, BatchState::kCompleted),
            R"({"custom_id":"a","result":{"type":"errored","error":{"type":"error",)"
            R"("error":{"type":"invalid_request_error","message":"max_tokens: is wrong"},)"
            R"("request_id":null}}})"
            "\n");
  EXPECT_NE(line(500, "", BatchState::kCompleted).find(R"("type":"api_error")"), std::string::npos);
}

}  // namespace
}  // namespace tutti::protocol
