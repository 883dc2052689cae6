// The closed error catalogue through the server: provoked errors, each with its status, type, code,
// field and headers; and what no error may show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/error.h"
#include "protocol/json/json.h"
#include "sanitized.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

struct Provoked {
  std::string request;
  int status;
  const char* code;
  const char* param;  // "" = null
};

class ErrorsTest : public ServerTest {
 protected:
  static std::string Chat(const std::string& more) {
    return Post("/v1/chat/completions",
                R"({"model":"fake","messages":[{"role":"user","content":"hi"}],)" + more + "}");
  }
  void ExpectErrorBody(const RawResponse& response, const Provoked& want) {
    const Result<protocol::JsonDocument> body = protocol::ParseJson(response.body);
    ASSERT_TRUE(body.ok()) << response.body;
    ASSERT_EQ(body->root().as_object().size(), 1u);
    const protocol::Json& error = body->root().at("error");
    EXPECT_EQ(error.at("code").as_string(), want.code) << response.body;
    EXPECT_FALSE(error.at("message").as_string().empty());
    if (*want.param == '\0') {
      EXPECT_TRUE(error.at("param").is_null()) << response.body;
    } else {
      EXPECT_EQ(error.at("param").as_string(), want.param) << response.body;
    }
    const protocol::ErrorRow& row = protocol::FindError(InvalidArgument(want.code, ""));
    EXPECT_EQ(row.http, want.status) << "the table says otherwise for " << want.code;
    EXPECT_EQ(error.at("type").as_string(), row.type.data());
  }
};

TEST_F(ErrorsTest, ARouteThatIsMissedByAPrefixOrASlashIsNamed) {
  StartServer();
  const auto message = [&](const std::string& request) {
    const RawResponse response = Ask(request);
    EXPECT_EQ(response.status, 404);
    return std::string(
        protocol::ParseJson(response.body).value().root().at("error").at("message").as_string());
  };
  EXPECT_EQ(message(Post("/chat/completions", "{}")),
            "there is no such route; try /v1/chat/completions");
  EXPECT_EQ(message(Post("/v1/chat/completions/", "{}")),
            "there is no such route; try /v1/chat/completions");
  EXPECT_EQ(message(Get("/models/?a=b")), "there is no such route; try /models");
  EXPECT_EQ(message(Get("/v1/v1/models")), "there is no such route; /v1 stands in it twice");
  EXPECT_EQ(message(Get("/embeddings/x")), "there is no such route");
  EXPECT_EQ(message(Get("/models/%4")), "there is no such route");
  EXPECT_EQ(message(Get("/%zz")), "there is no such route");  // nothing sent comes back
}

TEST_F(ErrorsTest, FortyProvokedErrorsMatchTheTable) {
  // Errors of the gateway and the engine, produced by the fake.
  inference_.on_generate = [](const auto& generation) -> Status {
    const std::string& salt = generation->request.cache_salt;
    if (salt == "queue") return Unavailable("queue_full", "256 requests wait");
    if (salt == "drain") return Unavailable("draining", "the server stops");
    if (salt == "load") return Unavailable("model_loading", "the model is being loaded");
    if (salt == "stall") return Unavailable("engine_stalled", "the engine restarts");
    if (salt == "over") return Unavailable("overloaded", "predicted wait 12 s");
    if (salt == "kv") return Unavailable("kv_exhausted", "no blocks");
    if (salt == "fits")
      return InvalidArgument("request_exceeds_capacity", "needs 41 KV blocks, pool has 32")
          .WithParam("max_tokens");
    if (salt == "rate") return ResourceExhausted("rate_limit_exceeded", "60 a minute");
    if (salt == "quota") return ResourceExhausted("insufficient_quota", "spent");
    if (salt == "late")
      return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "2000 ms have passed");
    if (salt == "bug") return Internal("at 0x7ffd1234 in /src/engine/engine.cc");
    if (salt == "vocabulary")
      return InvalidArgument("token_out_of_range", "49152 is outside").WithParam("logit_bias");
    if (salt == "banned") return InvalidArgument("invalid_logit_mask", "every token is banned");
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  const auto salted = [&](const char* salt) {
    return Chat("\"cache_salt\":\"" + std::string(salt) + "\"");
  };
  const std::vector<Provoked> cases = {
      {Post("/v1/chat/completions", ""), 400, "invalid_json", ""},
      {Post("/v1/chat/completions", "null"), 400, "invalid_json", ""},
      {Post("/v1/chat/completions", "[]"), 400, "invalid_json", ""},
      {Post("/v1/chat/completions", "{\"a\":1,}"), 400, "invalid_json", ""},
      {Post("/v1/chat/completions", "{'a':1}"), 400, "invalid_json", ""},
      {Chat("\"temperature\":NaN"), 400, "invalid_json", ""},
      {Post("/v1/chat/completions", std::string(1'000'000, '[')), 400, "json_depth", ""},
      {Post("/v1/chat/completions", R"({"model":"a","model":"b"})"), 400, "duplicate_key", ""},
      {Post("/v1/chat/completions", "{\"model\":\"\xc0\x80\"}"), 400, "invalid_utf8", ""},
      {Post("/v1/chat/completions", "{\"model\":\"\\ud800\"}"), 400, "invalid_utf8", ""},
      {Post("/v1/chat/completions", "{}"), 400, "missing_required_parameter", "model"},
      {Post("/v1/chat/completions", R"({"model":"fake"})"), 400, "missing_required_parameter",
       "messages"},
      {Chat("\"temperature\":3"), 400, "invalid_value", "temperature"},
      {Chat("\"n\":9"), 400, "invalid_value", "n"},
      {Chat("\"stream\":\"yes\""), 400, "invalid_value", "stream"},
      {Chat("\"max_tokens\":0"), 400, "invalid_value", "max_tokens"},
      {Chat("\"tools\":[{}]"), 400, "missing_required_parameter", "tools[0].function"},
      {Chat("\"tools\":[{\"type\":\"web_search\"}]"), 400, "unsupported_parameter", "tools[0]"},
      {Chat("\"response_format\":{\"type\":\"xml\"}"), 400, "unsupported_parameter",
       "response_format.type"},
      {Post("/v1/completions", R"({"model":"fake","prompt":""})"), 400, "empty_prompt", "prompt"},
      {Post("/v1/completions", R"({"model":"fake","prompt":[-1]})"), 400, "token_out_of_range",
       "prompt[0]"},
      {Post("/v1/completions", R"({"model":"fake","prompt":"x","best_of":3})"), 400,
       "invalid_value", "best_of"},
      {Post("/generate", "{}"), 400, "missing_required_parameter", "prompt"},
      {Post("/tokenize", "{}"), 400, "missing_required_parameter", "prompt"},
      {Post("/detokenize", "{}"), 400, "missing_required_parameter", "tokens"},
      {Post("/v1/chat/completions",
            R"({"model":"other","messages":[{"role":"user","content":"x"}]})"),
       404, "model_not_found", "model"},
      {Get("/v1/models/none"), 404, "model_not_found", "model"},
      {Get("/nothing"), 404, "not_found", ""},
      {Get("/v1/completions"), 405, "method_not_allowed", ""},
      {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414,
       "uri_too_long", ""},
      {"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nContent-Length: "
       "2\r\n\r\n{}",
       415, "unsupported_media_type", ""},
      {"POST /generate HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nContent-Length: "
       "2\r\n\r\n{}",
       417, "expectation_failed", ""},
      {Get("/livez", "X: " + std::string(33'000, 'a') + "\r\n"), 431, "headers_too_large", ""},
      {"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n", 413,
       "request_too_large", ""},
      {Get("/livez", "Origin: https://evil.example\r\n"), 403, "insufficient_scope", ""},
      {Post("/v1/responses/compact", "{}"), 501, "not_implemented", ""},
      {"GET /livez HTTP/3.7\r\nHost: localhost\r\n\r\n", 505, "http_version_not_supported", ""},
      {salted("queue"), 503, "queue_full", ""},
      {salted("drain"), 503, "draining", ""},
      {salted("load"), 503, "model_loading", ""},
      {salted("stall"), 503, "engine_stalled", ""},
      {salted("over"), 503, "overloaded", ""},
      {salted("kv"), 503, "kv_exhausted", ""},
      {salted("fits"), 413, "request_exceeds_capacity", "max_tokens"},
      {salted("rate"), 429, "rate_limit_exceeded", ""},
      {salted("quota"), 429, "insufficient_quota", ""},
      {salted("late"), 504, "deadline_exceeded", ""},
      {salted("bug"), 500, "internal_error", ""},
      {salted("vocabulary"), 400, "token_out_of_range", "logit_bias"},
      {salted("banned"), 400, "invalid_logit_mask", ""},
  };
  EXPECT_GE(cases.size(), 40u);
  for (const Provoked& want : cases) {
    SCOPED_TRACE(want.request.substr(0, 200));
    const RawResponse response = Ask(want.request);
    EXPECT_EQ(response.status, want.status) << response.body;
    EXPECT_EQ(response.Header("content-type"), "application/json");
    EXPECT_NE(response.Header("x-request-id"), "");
    ExpectErrorBody(response, want);
    const bool come_back = want.status == 429 || want.status == 503 || want.status == 504;
    EXPECT_EQ(response.Header("retry-after").empty(), !come_back);
    EXPECT_EQ(atoi(response.Header("retry-after").c_str()) >= 1, come_back);
    const bool stay_away = want.status == 501 || want.status == 504 || want.status == 505 ||
                           std::string(want.code) == "insufficient_quota";
    EXPECT_EQ(response.Header("x-should-retry"), stay_away ? "false" : "");
    for (const char* leak : {"0x7f", "/src/", "std::", ".cc", "home"})
      EXPECT_THAT(response.body, ::testing::Not(HasSubstr(leak)));
  }
  EXPECT_EQ(Ask(Chat("\"n\":1")).status, 200) << "and the server still answers";
}

TEST_F(ErrorsTest, AFullQueueIs429WhereTheOperatorWantsIt) {
  inference_.on_generate = [](const auto&) {
    return Unavailable("queue_full", "256 requests wait");
  };
  HttpOptions options;
  options.queue_full_status = 429;
  StartServer(options);
  const RawResponse response = Ask(Chat("\"n\":1"));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(CodeOf(response), "queue_full");
  EXPECT_NE(response.Header("retry-after"), "");
}

TEST_F(ErrorsTest, UnknownFieldsAreNamedInAHeaderOrRefusedInStrictMode) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  const RawResponse response = Ask(Chat(R"("__proto__":1,"n_discard":-1,"bad\r\nName: x":2)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("x-tutti-ignored"), "__proto__, n_discard, bad??Name??x");
  server_->Stop();
  HttpOptions strict;
  strict.strict = true;
  StartServer(strict);
  const RawResponse refused = Ask(Chat(R"("n_discard":-1)"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(CodeOf(refused), "unknown_parameter");
}

TEST_F(ErrorsTest, TextOfRequestsNeverReachesTheLog) {
  inference_.on_generate = [](const auto& generation) -> Status {
    if (generation->request.n == 2) return Internal("broken");
    generation->Answer({"CANARY-ANSWER"});
    return OkStatus();
  };
  HttpOptions options;
  options.api_key = "sk-CANARY-KEY";
  StartServer(options);
  const std::string key = "Authorization: Bearer sk-CANARY-KEY\r\n";
  const std::string c = "CANARY-" + std::string(8, 'z');
  for (const std::string& body :
       {R"({"model":"fake","messages":[{"role":"user","content":")" + c + R"(","name":")" + c +
            R"("}],"stop":")" + c + R"(","user":")" + c + R"("})",
        R"({"model":")" + c + R"(","messages":[{"role":"user","content":"x"}]})",
        R"({"model":"fake","n":2,"messages":[{"role":"user","content":")" + c + R"("}]})",
        R"({"model":"fake","messages":[{"role":")" + c + R"(","content":"x"}]})",
        R"({")" + c + R"(":1})", c, "\"" + c + "\"", "{\"model\":\"" + c}) {
    Ask(Post("/v1/chat/completions", body, key));
    Ask(Post("/tokenize", body, key));
    Ask(Post("/shown", body, key));  // of a target the log shows the path, and nothing else
    Ask(Post("/shown?" + c, body, key));
    Ask(Post("/v1/chat/completions?key=" + c, body,
             key + "X-Canary: " + c + "\r\nUser-Agent: " + c + "\r\n"));
    Ask(Get("/v1/models/shown#" + c, key));
    Ask(Get("/v1/models/sk-CANARY-KEY", key));
    Ask(Get("/v1/models", "Authorization: Bearer " + c + "\r\n"));
    Ask(c + " / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  log_.Flush();
  EXPECT_THAT(lines_->Joined(), ::testing::HasSubstr("path=/shown "));
  EXPECT_EQ(lines_->Joined().find("CANARY"), std::string::npos);
  EXPECT_EQ(Ask(Get("/metrics", key)).body.find("CANARY"), std::string::npos);
}

TEST_F(ErrorsTest, EveryHostileRequestIsAnsweredWithinASecond) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  std::string ids = "[1", keys = "{\"model\":\"fake\",\"prompt\":\"x\"", bias = "{\"0\":1",
              members = "{\"k0\":0";
  for (int i = 1; i < 1'000'000; ++i) ids += ",1";
  ids += "]";
  for (int i = 1; i < 100'000; ++i) members += ",\"k" + std::to_string(i) + "\":0";
  for (int i = 1; i < 1025; ++i) bias += ",\"" + std::to_string(i) + "\":1";
  for (const std::string& body :
       {R"({"model":"fake","prompt":"x","stop_token_ids":)" + ids + "}",
        R"({"model":"fake","prompt":)" + ids + R"(,"logprobs":9})",
        R"({"model":"fake","prompt":"x","logit_bias":)" + bias + "}}", members + "}",
        "{\"model\":\"" + std::string(8'000'000, 'm') + "\",\"prompt\":\"x\"}",
        R"({"model":"fake","prompt":"x","user":")" + std::string(1 << 20, 's') + "\"}",
        std::string(8'000'000, '{'), std::string(8'000'000, '9'),
        "\"" + std::string(7'000'000, '\\') + "\"",
        R"({"model":"fake","prompt":"x","metadata":{"k":")" + std::string(1 << 20, 's') + "\"}}"}) {
    const auto start = std::chrono::steady_clock::now();
    const RawResponse response = Ask(Post("/v1/completions", body));
    EXPECT_EQ(response.status, 400) << body.substr(0, 60);
    EXPECT_LT(response.body.size(), 1000u);
    if (!support::Sanitized()) {
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1))
          << body.substr(0, 60);
    }
  }
}

}  // namespace
}  // namespace tutti::http::testing
