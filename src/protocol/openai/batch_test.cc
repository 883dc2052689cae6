#include "protocol/openai/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::protocol {
namespace {

constexpr const char* kChatUrl = "/v1/chat/completions";

Result<BatchCreate> Create(const std::string& text, bool strict = false) {
  const auto document = ParseJson(text);
  EXPECT_TRUE(document.ok()) << text;
  return ParseBatchCreate(document->root(), {.strict = strict});
}

TEST(BatchTest, ABatchIsMadeOfAFileAndAnEndpoint) {
  const auto made = Create(
      R"({"input_file_id":"file-1","endpoint":"/v1/embeddings","completion_window":"24h",)"
      R"("metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":3600}})");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->input_file_id, "file-1");
  EXPECT_EQ(made->endpoint, "/v1/embeddings");
  EXPECT_EQ(made->metadata, (Metadata{{"a", "b"}}));
  EXPECT_EQ(made->output_expires_s, 3600);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"endpoint":"/v1/completions","completion_window":"24h"})", "input_file_id"},
      {R"({"input_file_id":"f","completion_window":"24h"})", "endpoint"},
      {R"({"input_file_id":"f","endpoint":"/v1/completions"})", "completion_window"},
      {R"({"input_file_id":"f","endpoint":"/v1/moderations","completion_window":"24h"})",
       "endpoint"},
      {R"({"input_file_id":"f","endpoint":"/v1/completions","completion_window":"1h"})",
       "completion_window"},
      {R"({"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h",)"
       R"("output_expires_after":{"anchor":"created_at","seconds":1}})",
       "output_expires_after.seconds"},
      {R"({"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h",)"
       R"("output_expires_after":{"seconds":3600}})",
       "output_expires_after.anchor"},
  };
  for (const auto& [text, param] : bad) EXPECT_EQ(Create(text).status().param(), param) << text;
}

std::string CodeOfLine(const std::string& text) {
  return ReadBatchLine(text, kChatUrl).status().reason();
}

TEST(BatchTest, ALineIsARequestOfTheBatchesEndpoint) {
  const auto line =
      ReadBatchLine(R"({"custom_id":"r-1","method":"POST","url":"/v1/chat/completions",)"
                    R"("body":{"model":"m","seed":9007199254740993,"temperature":0.5}})",
                    kChatUrl);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->custom_id, "r-1");
  EXPECT_EQ(line->model, "m");
  EXPECT_EQ(line->body, R"({"model":"m","seed":9007199254740993,"temperature":0.5})");
  const std::string rest = R"("custom_id":"r","body":{})";
  const std::string url = R"(,"url":"/v1/chat/completions")", post = R"(,"method":"POST")";
  EXPECT_EQ(CodeOfLine("{" + rest + url + post + "}"), "");
  for (const char* text : {"", "x", "{", "{} {}", "{\"a\":1,\"a\":2}", "\xEF\xBB\xBF{}"})
    EXPECT_EQ(CodeOfLine(text), "invalid_json_line") << text;
  EXPECT_EQ(CodeOfLine("[]"), "invalid_json_line");
  EXPECT_EQ(CodeOfLine("{" + rest + url + "}"), "missing_required_parameter");
  EXPECT_EQ(CodeOfLine("{" + rest + post + "}"), "missing_required_parameter");
  EXPECT_EQ(CodeOfLine("{" + rest + url + R"(,"method":"GET"})"), "invalid_method");
  EXPECT_EQ(CodeOfLine("{" + rest + post + R"(,"url":"/v1/embeddings"})"), "invalid_url");
  EXPECT_EQ(CodeOfLine("{" + rest + post + R"(,"url":7})"), "invalid_url");
  EXPECT_EQ(CodeOfLine(R"({"custom_id":7,"body":{})" + url + post + "}"), "invalid_value");
  EXPECT_EQ(CodeOfLine(R"({"custom_id":"r","body":[])" + url + post + "}"), "invalid_value");
  EXPECT_EQ(CodeOfLine(R"({"custom_id":"r","body":{"stream":true})" + url + post + "}"),
            "unsupported_parameter");
}

TEST(BatchTest, ALineOfResponsesRunsAloneAndInTheBatchItself) {
  const auto made =
      Create(R"({"input_file_id":"f","endpoint":"/v1/responses","completion_window":"24h"})");
  EXPECT_TRUE(made.ok()) << made.status();
  const auto read = [](const std::string& body) {
    return ReadBatchLine(
        R"({"custom_id":"r","method":"POST","url":"/v1/responses","body":)" + body + "}",
        kResponsesEndpoint);
  };
  EXPECT_TRUE(read(R"({"input":"hi","background":false,"stream":false,"conversation":null})").ok());
  EXPECT_TRUE(read(R"({"input":"hi","previous_response_id":"resp_1","store":true})").ok());
  for (const auto& [member, param] :
       {std::pair{R"("stream":true)", "body.stream"},
        std::pair{R"("background":true)", "body.background"},
        std::pair{R"("conversation":"conv_1")", "body.conversation"},
        std::pair{R"("conversation":{"id":"conv_1"})", "body.conversation"}}) {
    const auto refused = read(std::string("{") + member + "}");
    EXPECT_EQ(refused.status().reason(), "unsupported_parameter") << member;
    EXPECT_EQ(refused.status().param(), param);
  }
}

TEST(BatchTest, TextsToEmbedAreCounted) {
  const auto inputs = [](const std::string& input) {
    const auto line = ReadBatchLine(
        R"({"custom_id":"r","method":"POST","url":"/v1/chat/completions","body":{"input":)" +
            input + "}}",
        kChatUrl);
    return line.ok() ? line->inputs : -1;
  };
  EXPECT_EQ(inputs("\"a\""), 1);
  EXPECT_EQ(inputs("[\"a\",\"b\",\"c\"]"), 3);
  EXPECT_EQ(inputs("[1,2,3]"), 1);
  EXPECT_EQ(inputs("[[1,2],[3]]"), 2);
}

TEST(BatchTest, ABatchIsShownAsOpenAiShowsIt) {
  BatchView batch;
  batch.id = "batch_1";
  batch.endpoint = "/v1/completions";
  batch.input_file = "file-1";
  batch.created_ms = 5999;
  EXPECT_EQ(
      BatchJson(batch),
      R"({"id":"batch_1","object":"batch","endpoint":"/v1/completions","model":null,"errors":null,)"
      R"("input_file_id":"file-1","completion_window":"24h","status":"validating",)"
      R"("output_file_id":null,"error_file_id":null,"created_at":5,"in_progress_at":null,)"
      R"("expires_at":null,"finalizing_at":null,"completed_at":null,"failed_at":null,)"
      R"("expired_at":null,"cancelling_at":null,"cancelled_at":null,)"
      R"("request_counts":{"total":0,"completed":0,"failed":0},"usage":{"input_tokens":0,)"
      R"("input_tokens_details":{"cached_tokens":0},"output_tokens":0,)"
      R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":0},"metadata":null})");
  batch.errors = BatchErrorsJson(std::vector<BatchError>{{"c", "m", "", 0}, {"d", "n", "p", 7}});
  EXPECT_NE(BatchJson(batch).find(
                R"("errors":{"object":"list","data":[{"code":"c","message":"m","param":null,)"
                R"("line":null},{"code":"d","message":"n","param":"p","line":7}]})"),
            std::string::npos)
      << BatchJson(batch);
  EXPECT_NE(BatchListJson({&batch, 1}, true).find("\"has_more\":true"), std::string::npos);
  EXPECT_EQ(BatchListJson({}, false),
            R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})");
  EXPECT_EQ(BatchAnswerLine("i", "c", 200, "r", "{}"),
            R"({"id":"i","custom_id":"c","response":{"status_code":200,"request_id":"r",)"
            R"("body":{}},"error":null})"
            "\n");
  EXPECT_EQ(BatchErrorLine("i", "c", "batch_expired", "m"),
            R"({"id":"i","custom_id":"c","response":null,"error":{"code":"batch_expired",)"
            R"("message":"m"}})"
            "\n");
}

}  // namespace
}  // namespace tutti::protocol
