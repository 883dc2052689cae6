#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "protocol/json/json.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using testing::RawClient;
using testing::RawResponse;
using testing::ServerTest;

class HttpJobsTest : public ServerTest {
 protected:
  static constexpr const char* kAsync = "Prefer: respond-async\r\n";

  RawResponse Submit(const std::string& fields = kAsync) {
    return Ask(Post("/v1/chat/completions", kChatBody, fields));
  }
  static std::string Member(const RawResponse& response, const std::string& name) {
    const auto document = protocol::ParseJson(response.body);
    EXPECT_TRUE(document.ok()) << response.body;
    if (!document.ok() || !document->root().is_object()) return "";
    const protocol::Json* value = document->root().get_object().if_contains(name);
    return value != nullptr && value->is_string() ? std::string(protocol::TextOf(*value)) : "";
  }
};

TEST_F(HttpJobsTest, IsAcceptedWith202AndFetchedLater) {
  StartServer();
  const RawResponse accepted = Submit();
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Member(accepted, "id");
  EXPECT_EQ(accepted.Header("location"), "/v1/jobs/" + id);
  EXPECT_EQ(accepted.Header("preference-applied"), "respond-async");
  EXPECT_FALSE(accepted.Header("retry-after").empty());
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(generation->request.priority, api::Priority::kBatch);
  EXPECT_EQ(Member(Ask(Get("/v1/jobs/" + id)), "status"), "running");
  generation->Answer({"Hello"});
  const RawResponse done = Ask(Get("/v1/jobs/" + id + "?wait=10"));
  EXPECT_EQ(Member(done, "status"), "completed") << done.body;
  EXPECT_NE(done.body.find(R"("content":"Hello")"), std::string::npos) << done.body;
  const RawResponse known =
      Ask(Get("/v1/jobs/" + id, "If-None-Match: " + done.Header("etag") + "\r\n"),
          /*head_only=*/true);
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, "");
}

// Regression: a request that was to run in an hour ran at once, without an error.
TEST_F(HttpJobsTest, WhatIsAJobsAloneIsRefusedOfOthers) {
  StartServer();
  for (const char* field : {"X-Tutti-Run-At: 4102444800\r\n", "X-Tutti-Deadline: 4102444800\r\n",
                            "X-Tutti-Webhook: https://example.com/\r\n"}) {
    const RawResponse refused = Submit(field);
    EXPECT_EQ(refused.status, 400) << field;
    EXPECT_NE(refused.body.find("respond-async"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(inference_.generations(), 0u);
}

// The Responses API has `background` instead: a server may ignore a preference (RFC 7240), and must
// not answer 202 to a client that does not expect it.
TEST_F(HttpJobsTest, TheResponsesApiIsAnsweredAsWithoutThePreference) {
  StartServer();
  RawClient client(port());
  ASSERT_TRUE(client.Send(Post("/v1/responses", R"({"model":"fake","input":"hi"})", kAsync)));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(generation->request.priority, api::Priority::kInteractive);
  generation->Answer({"Hello"});
  const RawResponse answer = client.Read();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.Header("preference-applied"), "");
  EXPECT_EQ(answer.Header("location"), "");
  EXPECT_EQ(Member(answer, "object"), "response");
  EXPECT_EQ(Ask(Get("/v1/jobs")).body.find("job_"), std::string::npos);
}

TEST_F(HttpJobsTest, ThePlainAnswerComesIfItComesWithinTheWait) {
  StartServer();
  RawClient client(port());
  ASSERT_TRUE(client.Send(
      Post("/v1/chat/completions", kChatBody, "Prefer: respond-async\r\nPrefer: wait=20\r\n")));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Answer({"Hello"});
  const RawResponse answer = client.Read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Member(answer, "object"), "chat.completion") << answer.body;

  RawClient another(port());
  ASSERT_TRUE(
      another.Send(Post("/v1/chat/completions", kChatBody, "Prefer: wait=20, respond-async\r\n")));
  const auto failing = inference_.Generation(1);
  ASSERT_NE(failing, nullptr);
  failing->Started();
  failing->End(InvalidArgument("context_length_exceeded", "too long"));
  failing->Wake();
  const RawResponse failure = another.Read();
  EXPECT_EQ(failure.status, 400);
  EXPECT_EQ(CodeOf(failure), "context_length_exceeded");
}

TEST_F(HttpJobsTest, WithoutThePreferenceNothingIsAJob) {
  StartServer();
  size_t asked = 0;
  for (const char* fields : {"", "Prefer: wait=1\r\n", "Prefer: respond-asynchronously\r\n"}) {
    RawClient client(port());
    ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatBody, fields)));
    const auto generation = inference_.Generation(asked++);
    ASSERT_NE(generation, nullptr);
    generation->Answer({"Hello"});
    EXPECT_EQ(client.Read().status, 200) << fields;
  }
  EXPECT_EQ(Ask(Get("/v1/jobs")).body,
            R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})");
}

TEST_F(HttpJobsTest, BadFieldsAndRoutesAreRefused) {
  StartServer();
  for (const char* field :
       {"Idempotency-Key: \r\n", "Idempotency-Key: a b\r\n",
        "Idempotency-Key: a\r\nIdempotency-Key: a\r\n", "X-Tutti-Run-At: soon\r\n",
        "X-Tutti-Run-At: -1\r\n", "X-Tutti-Run-At: 9999999999999\r\n", "X-Tutti-Deadline: 5\r\n"}) {
    const RawResponse refused = Submit(std::string(kAsync) + field);
    EXPECT_EQ(refused.status, 400) << field;
    EXPECT_EQ(CodeOf(refused), "invalid_value") << field;
  }
  EXPECT_EQ(Ask(Get("/v1/jobs/job_1")).status, 404);
  EXPECT_EQ(Ask(Get("/v1/jobs/job_1/events")).status, 404);
  EXPECT_EQ(Ask(Get("/v1/jobs/job_1?wait=61")).status, 400);
  EXPECT_EQ(Ask(Get("/v1/jobs?status=dead")).status, 400);
  EXPECT_EQ(Ask(Get("/v1/jobs?after=job_1")).status, 404);
  EXPECT_EQ(Ask(Post("/v1/jobs/job_1/cancel", "")).status, 404);
  EXPECT_EQ(Ask(Post("/v1/jobs/job_1/replay", "")).status, 404);
  EXPECT_EQ(Ask(Post("/v1/jobs", "{}")).status, 405);
  EXPECT_EQ(inference_.generations(), 0u);
}

TEST_F(HttpJobsTest, EventsTellEachStateAndEndWithTheResult) {
  StartServer();
  const std::string id = Member(Submit(), "id");
  RawClient client(port());
  ASSERT_TRUE(client.Send(Get("/v1/jobs/" + id + "/events")));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Answer({"Hello"});
  const RawResponse stream = client.Read();
  EXPECT_EQ(stream.Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_NE(stream.body.find("event: job.completed\ndata: {\"type\":\"job.completed\""),
            std::string::npos)
      << stream.body;
  EXPECT_NE(stream.body.find(R"("content":"Hello")"), std::string::npos);
  // A late reader gets the current state, or all states after a number.
  const auto types = [&](const std::string& query) {
    const std::string body = Ask(Get("/v1/jobs/" + id + "/events" + query)).body;
    std::string out;
    for (size_t at = 0; (at = body.find("event: ", at)) != std::string::npos; ++at)
      out += body.substr(at + 7, body.find('\n', at) - at - 7) + " ";
    return out;
  };
  EXPECT_EQ(types(""), "job.completed ");
  EXPECT_EQ(types("?starting_after=0"), "job.queued job.running job.completed ");
  EXPECT_EQ(types("?starting_after=2"), "job.completed ");
  // After the last event there are no more.
  const RawResponse rest = Ask(Get("/v1/jobs/" + id + "/events?starting_after=99"));
  EXPECT_EQ(rest.status, 200);
  EXPECT_EQ(rest.body, "");
}

// Row N71.
TEST_F(HttpJobsTest, AFullDiskIs503AndReadsGoOn) {
  StartServer();
  const std::string id = Member(Submit(), "id");
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Answer({"Hello"});
  EXPECT_EQ(Member(Ask(Get("/v1/jobs/" + id + "?wait=10")), "status"), "completed");
  const auto pages = [&](const std::string& most) {
    return store_->ReadNow(
        [&](store::Database& rows) { return rows.Execute("PRAGMA max_page_count=" + most); });
  };
  ASSERT_TRUE(pages("1").ok());  // it is never less than there are
  const std::string large = R"({"model":"fake","messages":[{"role":"user","content":")" +
                            std::string(12'000, 'x') + R"("}]})";
  RawResponse refused;
  for (int i = 0; i < 100 && refused.status != 503; ++i)
    refused = Ask(Post("/v1/chat/completions", large, kAsync));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(CodeOf(refused), "storage_full");
  EXPECT_EQ(Member(Ask(Get("/v1/jobs/" + id)), "status"), "completed");
  ASSERT_TRUE(pages("1000000").ok());
  EXPECT_EQ(Submit().status, 202);
}

TEST_F(HttpJobsTest, WithoutAStoreThereAreNone) {
  has_services_ = false;
  StartServer();
  EXPECT_EQ(CodeOf(Ask(Get("/v1/jobs"))), "not_implemented");
  RawClient client(port());
  ASSERT_TRUE(client.Send(Post("/v1/chat/completions", kChatBody, kAsync)));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Answer({"Hello"});
  EXPECT_EQ(client.Read().status, 200) << "a preference may be ignored (RFC 7240 2)";
}

}  // namespace
}  // namespace tutti::http
