// Anthropic's Messages API through the server: the prompt it makes, its answers and streams, and
// its errors, before a model whose words are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MessagesRouteTest : public ServerTest {
 protected:
  static std::string Ask(const std::string& members) {
    return R"({"model":"fake","max_tokens":9,"messages":[{"role":"user","content":"hi"}])" +
           members + "}";
  }
  RawResponse Messages(const std::string& body, const std::string& fields = "") {
    return ServerTest::Ask(Post("/v1/messages", body, fields));
  }
  void AnswerAll(const std::vector<std::string>& tokens) {
    inference_.on_generate = [tokens](const std::shared_ptr<FakeGeneration>& generation) {
      generation->AppendAnswer(tokens);
      return OkStatus();
    };
  }
  // "401 authentication_error" of an error in Anthropic's form.
  static std::string ErrorOf(const RawResponse& response) {
    EXPECT_EQ(response.Header("content-type"), "application/json");
    const boost::json::value body = boost::json::parse(response.body);
    EXPECT_EQ(body.at("type").as_string(), "error") << response.body;
    EXPECT_EQ(std::string(body.at("request_id").as_string()), response.Header("request-id"));
    EXPECT_EQ(response.Header("request-id"), response.Header("x-request-id"));
    EXPECT_FALSE(body.at("error").at("message").as_string().empty());
    return std::to_string(response.status) + " " +
           std::string(body.at("error").at("type").as_string());
  }
};

TEST_F(MessagesRouteTest, AnswersWithAMessage) {
  AnswerAll({"one", " two"});
  StartServer();
  const RawResponse response =
      Messages(Ask(R"(,"x":1)"), "anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\n");
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.body.starts_with(R"({"id":"msg_)")) << response.body;
  EXPECT_THAT(response.body,
              HasSubstr(R"("type":"message","role":"assistant","model":"fake",)"
                        R"("content":[{"type":"text","text":"one two"}],"stop_reason":"end_turn",)"
                        R"("stop_sequence":null,"usage":{"input_tokens":3,)"));
  EXPECT_EQ(response.Header("x-tutti-ignored"), "x");
  EXPECT_EQ(response.Header("request-id"), response.Header("x-request-id"));
  const api::GenerateRequest& request = inference_.Generation(0)->request;
  EXPECT_EQ(request.route, "messages");
  EXPECT_EQ(request.sampling.max_tokens, 9);
}

// Both dialects make the same request to the inference API, so the model reads the same text.
TEST_F(MessagesRouteTest, ADialogIsThePromptOfItsChatCompletion) {
  AnswerAll({"ok"});
  StartServer();
  const std::string turns =
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":"c"},{"role":"user","content":"d"})";
  Messages(R"({"model":"fake","max_tokens":9,"system":"s","messages":[)" + turns + "]}");
  ServerTest::Ask(Post("/v1/chat/completions", R"({"model":"fake","max_tokens":9,"messages":[)"
                                               R"({"role":"system","content":"s"},)" +
                                                   turns + "]}"));
  const auto& ours = std::get<api::ChatPrompt>(inference_.Generation(0)->request.prompt);
  const auto& theirs = std::get<api::ChatPrompt>(inference_.Generation(1)->request.prompt);
  ASSERT_EQ(ours.messages.size(), theirs.messages.size());
  for (size_t i = 0; i < ours.messages.size(); ++i) {
    EXPECT_EQ(ours.messages[i].role, theirs.messages[i].role);
    EXPECT_EQ(ours.messages[i].content, theirs.messages[i].content);
    EXPECT_EQ(ours.messages[i].part_ends, theirs.messages[i].part_ends);
  }
  EXPECT_EQ(ours.add_generation_prompt, theirs.add_generation_prompt);
  EXPECT_EQ(ours.template_arguments, theirs.template_arguments);
}

TEST_F(MessagesRouteTest, StreamsNamedEvents) {
  AnswerAll({"one", " two"});
  StartServer();
  const RawResponse response = Messages(Ask(R"(,"stream":true)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_NE(response.Header("request-id"), "");
  EXPECT_TRUE(response.body.starts_with("event: message_start\ndata: {\"type\":\"message_start\""))
      << response.body;
  EXPECT_THAT(response.body,
              AllOf(HasSubstr(R"("delta":{"type":"text_delta","text":"one"}})"),
                    HasSubstr(R"("delta":{"type":"text_delta","text":" two"}})"),
                    HasSubstr(R"("delta":{"stop_reason":"end_turn","stop_sequence":null})")));
  EXPECT_TRUE(response.body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
      << response.body;
}

TEST_F(MessagesRouteTest, AFailureMidStreamIsAnErrorEvent) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/messages", Ask(R"(,"stream":true)"), "X-Request-Id: mine\r\n"));
  const auto generation = inference_.Generation(0);
  generation->Started(3);
  generation->Token("partial");
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("partial"));
  generation->End(Unavailable("engine_stalled", "the engine restarts"));
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_TRUE(response.body.ends_with(
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
      "\"message\":\"the engine restarts\"},\"request_id\":\"mine\"}\n\n"))
      << response.body;
  EXPECT_THAT(response.body, Not(HasSubstr("message_stop")));
}

TEST_F(MessagesRouteTest, AFailureBeforeTheFirstTokenIsAnOrdinaryError) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->Started(900);
    generation->End(InvalidArgument("context_length_exceeded", "900 tokens and none left"));
    return OkStatus();
  };
  StartServer();
  const RawResponse response = Messages(Ask(R"(,"stream":true)"));
  EXPECT_EQ(ErrorOf(response), "400 invalid_request_error");
  EXPECT_THAT(response.body, HasSubstr(R"("message":"messages: 900 tokens and none left")"));
  EXPECT_EQ(response.Header("x-tutti-error-code"), "context_length_exceeded");
}

TEST_F(MessagesRouteTest, SilenceIsFilledWithPings) {
  HttpOptions options;
  options.keepalive = std::chrono::milliseconds(20);
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/messages", Ask(R"(,"stream":true)")));
  EXPECT_TRUE(client.WaitFor("event: ping\ndata: {\"type\":\"ping\"}\n\n"));
  const auto generation = inference_.Generation(0);
  generation->Answer({"x"});
  EXPECT_THAT(client.Read().body, HasSubstr("event: message_stop"));
}

TEST_F(MessagesRouteTest, ErrorsHaveAnthropicsForm) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) -> Status {
    const std::string& salt = generation->request.cache_salt;
    if (salt == "queue") return Unavailable("queue_full", "256 requests wait");
    if (salt == "rate") return ResourceExhausted("rate_limit_exceeded", "60 a minute");
    if (salt == "bug") return Internal("at 0x7ffd1234");
    generation->AppendAnswer({"ok"});
    return OkStatus();
  };
  StartServer();
  const auto salted = [this](const std::string& salt) {
    return Messages(Ask(R"(,"cache_salt":")" + salt + "\""));
  };
  EXPECT_EQ(ErrorOf(salted("queue")), "503 overloaded_error");
  EXPECT_NE(salted("queue").Header("retry-after"), "");
  EXPECT_EQ(ErrorOf(salted("rate")), "429 rate_limit_error");
  EXPECT_EQ(ErrorOf(salted("bug")), "500 api_error");
  EXPECT_EQ(ErrorOf(Messages("{")), "400 invalid_request_error");
  const RawResponse missing = Messages(R"({"model":"fake","messages":[]})");
  EXPECT_EQ(ErrorOf(missing), "400 invalid_request_error");
  EXPECT_EQ(ErrorOf(Messages(
                R"({"model":"other","max_tokens":1,"messages":[{"role":"user","content":"x"}]})")),
            "404 not_found_error");
  EXPECT_EQ(ErrorOf(ServerTest::Ask(Get("/v1/messages"))), "405 invalid_request_error");
  EXPECT_EQ(ErrorOf(ServerTest::Ask(Get("/v1/messages/nothing"))), "404 not_found_error");
  EXPECT_EQ(ErrorOf(ServerTest::Ask("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 8388609\r\n\r\n")),
            "413 request_too_large");
  EXPECT_EQ(ErrorOf(ServerTest::Ask(Post("/v1/messages/count_tokens", "{}"))),
            "400 invalid_request_error");
  const RawResponse image = Messages(
      R"({"model":"fake","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})");
  EXPECT_THAT(image.body, HasSubstr("messages[0].content[0] is of type image"));
}

TEST_F(MessagesRouteTest, TakesAKeyAsAnthropicsClientsSendIt) {
  AnswerAll({"ok"});
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  EXPECT_EQ(ErrorOf(Messages(Ask(""))), "401 authentication_error");
  EXPECT_EQ(ErrorOf(Messages(Ask(""), "x-api-key: wrong\r\n")), "401 authentication_error");
  EXPECT_EQ(Messages(Ask(""), "x-api-key: " + options.api_key + "\r\n").status, 200);
  EXPECT_EQ(Messages(Ask(""), "Authorization: Bearer " + options.api_key + "\r\n").status, 200);
}

TEST_F(MessagesRouteTest, CountsTheTokensOfADialog) {
  StartServer();
  const RawResponse response = ServerTest::Ask(
      Post("/v1/messages/count_tokens",
           R"({"model":"fake","system":"be","messages":[{"role":"user","content":"hello"}]})"));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.body, R"({"input_tokens":11})") << "<be><hello>, a token for each byte";
}

TEST_F(MessagesRouteTest, ToolsReachTheModelAndItsCallsTheClient) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->Started();
    api::StreamEvent call;
    call.kind = api::StreamEvent::Kind::kToken;
    call.tool_calls = {{0, "toolu_1", "get", R"({"city":"Rome"})"}};
    generation->stream->Append(std::move(call));
    generation->ChoiceEnd(api::FinishReason::kToolCalls);
    generation->End();
    return OkStatus();
  };
  StartServer();
  const RawResponse response = Messages(
      Ask(R"(,"tools":[{"name":"get","input_schema":{"type":"object"}}],)"
          R"("tool_choice":{"type":"tool","name":"get","disable_parallel_tool_use":true})"));
  EXPECT_THAT(response.body,
              HasSubstr(R"("content":[{"type":"tool_use","id":"toolu_1","name":"get",)"
                        R"("input":{"city":"Rome"}}],"stop_reason":"tool_use")"));
  const auto& chat = std::get<api::ChatPrompt>(inference_.Generation(0)->request.prompt);
  ASSERT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.tools[0].parameters, R"({"type":"object"})");
  EXPECT_EQ(chat.tool_choice.name, "get");
  EXPECT_FALSE(chat.parallel_tool_calls);
}

TEST_F(MessagesRouteTest, IsAnsweredAgainUnderItsIdempotencyKey) {
  AnswerAll({"ok"});
  StartServer();
  const std::string key = "Idempotency-Key: k1\r\n";
  const RawResponse first = Messages(Ask(""), key);
  const RawResponse again = Messages(Ask(""), key);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.Header("idempotency-replayed"), "true");
  EXPECT_EQ(inference_.generations(), 1u);
}

// Message batches of Anthropic's Messages API.
class MessageBatchesRouteTest : public MessagesRouteTest {
 protected:
  static constexpr const char* kBatches = "/v1/messages/batches";

  static std::string Batch(const std::vector<std::string>& ids) {
    std::string body;
    for (const std::string& id : ids) {
      body += body.empty() ? R"({"requests":[)" : ",";
      body += R"({"custom_id":")" + id + R"(","params":)" + MessagesRouteTest::Ask("") + "}";
    }
    return body + "]}";
  }
  static std::string IdOf(const RawResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    const boost::json::value body = boost::json::parse(response.body);
    EXPECT_EQ(body.at("type").as_string(), "message_batch") << response.body;
    return std::string(body.at("id").as_string());
  }
  RawResponse Of(const std::string& id, const std::string& more = "") {
    return ServerTest::Ask(Get(std::string(kBatches) + "/" + id + more));
  }
  RawResponse Remove(const std::string& id) {
    return ServerTest::Ask("DELETE " + std::string(kBatches) + "/" + id +
                           " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  bool Ends(const std::string& id) {
    return Eventually(
        [&] { return Of(id).body.find(R"("processing_status":"ended")") != std::string::npos; });
  }
};

TEST_F(MessageBatchesRouteTest, ABatchRunsAndItsResultsAreRead) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) -> Status {
    EXPECT_EQ(generation->request.route, "messages");
    if (generation->request.request_id.ends_with("-2"))
      return InvalidArgument("context_length_exceeded", "too long");
    generation->Answer({"Hello"});
    return OkStatus();
  };
  StartServer();
  const RawResponse made = ServerTest::Ask(Post(kBatches, Batch({"a", "b"})));
  const std::string id = IdOf(made);
  EXPECT_TRUE(id.starts_with("msgbatch_")) << id;
  EXPECT_THAT(made.body, AllOf(HasSubstr(R"("processing_status":"in_progress")"),
                               HasSubstr(R"("processing":2)")));
  ASSERT_TRUE(Ends(id)) << Of(id).body;
  EXPECT_THAT(Of(id).body,
              AllOf(HasSubstr(R"("succeeded":1,"errored":1)"),
                    HasSubstr(R"("results_url":"/v1/messages/batches/)" + id + "/results")));
  const RawResponse results = Of(id, "/results");
  EXPECT_EQ(results.status, 200);
  EXPECT_EQ(results.Header("content-type"), "application/x-jsonl");
  EXPECT_THAT(results.body,
              AllOf(HasSubstr(R"({"custom_id":"a","result":{"type":"succeeded","message":{"id":)"),
                    HasSubstr(R"("content":[{"type":"text","text":"Hello"}])"),
                    HasSubstr(R"({"custom_id":"b","result":{"type":"errored","error":{)"
                              R"("type":"error","error":{"type":"invalid_request_error",)")));
  EXPECT_TRUE(Eventually([&] {
    const std::string files = ServerTest::Ask(Get("/v1/files")).body;
    return files.find("messages.jsonl") == std::string::npos;
  })) << "the input is the batch's alone";
}

TEST_F(MessageBatchesRouteTest, ABatchIsListedCanceledAndDeleted) {
  StartServer();
  const std::string id = IdOf(ServerTest::Ask(Post(kBatches, Batch({"a"}))));
  ASSERT_NE(inference_.Generation(0), nullptr);
  EXPECT_THAT(ServerTest::Ask(Get(std::string(kBatches) + "?limit=1")).body,
              AllOf(HasSubstr(R"("first_id":")" + id), HasSubstr(R"("has_more":false)")));
  EXPECT_EQ(ErrorOf(Of(id, "/results")), "404 not_found_error") << "it has not ended";
  EXPECT_EQ(ErrorOf(Remove(id)), "400 invalid_request_error");
  const RawResponse canceled =
      ServerTest::Ask(Post(std::string(kBatches) + "/" + id + "/cancel", ""));
  EXPECT_THAT(canceled.body, HasSubstr(R"("processing_status":"canceling")"));
  inference_.Generation(0)->End(Status(StatusCode::kCancelled, "cancelled", "cancelled"));
  inference_.Generation(0)->Wake();
  ASSERT_TRUE(Ends(id)) << Of(id).body;
  EXPECT_EQ(Of(id, "/results").body, "{\"custom_id\":\"a\",\"result\":{\"type\":\"canceled\"}}\n");
  EXPECT_EQ(Remove(id).body, R"({"id":")" + id + R"(","type":"message_batch_deleted"})");
  EXPECT_EQ(ErrorOf(Of(id)), "404 not_found_error");
  EXPECT_EQ(ServerTest::Ask(Get("/v1/files")).body.find("results"), std::string::npos);
}

TEST_F(MessageBatchesRouteTest, RefusesAWrongRequestAndBatchesOfOtherEndpoints) {
  StartServer();
  const RawResponse wrong = ServerTest::Ask(
      Post(kBatches, R"({"requests":[{"custom_id":"a","params":{"model":"fake"}}]})"));
  EXPECT_EQ(ErrorOf(wrong), "400 invalid_request_error");
  EXPECT_THAT(wrong.body, HasSubstr("requests[0].params.messages: "));
  const RawResponse other = ServerTest::Ask(
      Post(kBatches, R"({"requests":[{"custom_id":"a","params":{"model":"other","max_tokens":1,)"
                     R"("messages":[{"role":"user","content":"x"}]}}]})"));
  EXPECT_EQ(ErrorOf(other), "404 not_found_error");
  EXPECT_EQ(ErrorOf(Of("batch_1")), "404 not_found_error");
  EXPECT_EQ(ErrorOf(Remove("batch_1")), "404 not_found_error");
}

}  // namespace
}  // namespace tutti::http::testing
