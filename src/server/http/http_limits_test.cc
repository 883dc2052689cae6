// Rate-limit headers of a caller, and the models that it may see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LimitsTest : public ServerTest {
 protected:
  static void SetLimits(api::RateLimits* limits) {
    limits->requests = api::RateLimit{60, 59, std::chrono::seconds(1)};
    limits->tokens = api::RateLimit{40'000, 0, std::chrono::milliseconds(90'500)};
  }
};

TEST_F(LimitsTest, EveryAnswerOfACallerWithLimitsTellsThem) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    SetLimits(generation->request.rate_limits.get());
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>& encoding) {
    SetLimits(encoding->request.rate_limits.get());
    encoding->SetAnswer();
    return OkStatus();
  };
  StartServer();
  for (const auto& [path, body] :
       {std::pair{"/v1/chat/completions", kChatBody},
        std::pair{
            "/v1/chat/completions",
            std::string(
                R"({"model":"fake","stream":true,"messages":[{"role":"user","content":"hi"}]})")},
        std::pair{"/v1/embeddings", std::string(R"({"model":"fake-embed","input":"hi"})")},
        std::pair{"/v2/models/fake/generate", std::string(R"({"text_input":"hi"})")}}) {
    const RawResponse response = Ask(Post(path, body));
    ASSERT_EQ(response.status, 200) << path << response.body;
    EXPECT_EQ(response.Header("x-ratelimit-limit-requests"), "60") << path;
    EXPECT_EQ(response.Header("x-ratelimit-remaining-requests"), "59");
    EXPECT_EQ(response.Header("x-ratelimit-reset-requests"), "1s");
    EXPECT_EQ(response.Header("x-ratelimit-limit-tokens"), "40000");
    EXPECT_EQ(response.Header("x-ratelimit-remaining-tokens"), "0");
    EXPECT_EQ(response.Header("x-ratelimit-reset-tokens"), "1m31s");
  }
  EXPECT_EQ(Ask(Get("/v1/models")).Header("x-ratelimit-limit-requests"), "") << "nothing was used";
}

TEST_F(LimitsTest, ARefusalTellsWhenToComeBackAndWhatIsLeft) {
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    SetLimits(generation->request.rate_limits.get());
    return ResourceExhausted("rate_limit_exceeded", "too many")
        .WithRetryAfter(std::chrono::milliseconds(1500));
  };
  StartServer();
  const RawResponse response = Ask(Post("/v1/chat/completions", kChatBody));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.Header("retry-after"), "2");
  EXPECT_EQ(response.Header("retry-after-ms"), "1500");
  EXPECT_EQ(response.Header("x-ratelimit-remaining-tokens"), "0");
}

TEST_F(LimitsTest, ModelsThatWereNotGivenAreNotThere) {
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.scopes.models = {"fake"};
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string bearer = "Authorization: Bearer " + key->text + "\r\n";
  const std::string all = "Authorization: Bearer " + options.api_key + "\r\n";
  EXPECT_THAT(Ask(Get("/v1/models", all)).body, HasSubstr("fake-embed"));
  const std::string given = Ask(Get("/v1/models", bearer)).body;
  EXPECT_THAT(given, HasSubstr("\"fake\""));
  EXPECT_THAT(given, Not(HasSubstr("fake-embed")));
  EXPECT_EQ(Ask(Get("/v1/models/fake-embed", all)).status, 200);
  EXPECT_EQ(Ask(Get("/v1/models/fake-embed", bearer)).status, 404);
  // Regression: KServe showed them.
  for (const char* const path :
       {"/v2/models/fake-embed", "/v2/models/fake-embed/config", "/v2/models/fake-embed/stats"}) {
    EXPECT_EQ(Ask(Get(path, all)).status, 200) << path;
    EXPECT_EQ(Ask(Get(path, bearer)).status, 404) << path;
  }
  EXPECT_EQ(Ask(Get("/v2/models/fake-embed/ready", bearer)).status, 400);
  for (const RawResponse& list :
       {Ask(Get("/v2/models/stats", bearer)), Ask(Post("/v2/repository/index", "{}", bearer))}) {
    EXPECT_THAT(list.body, HasSubstr("\"fake\""));
    EXPECT_THAT(list.body, Not(HasSubstr("fake-embed")));
  }
}

// Regression: the quota was the tenant's, so one key used up the dialogs of all others.
TEST_F(LimitsTest, AConversationAndAForkTakeFromTheQuotaOfTheKeyThatMadeThem) {
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  std::string conversation;
  for (const char* const name : {"one", "two"}) {
    const auto key =
        known_->accounts().CreateKey({.name = name, .grant = {}, .expires_s = {}}, time(nullptr));
    ASSERT_TRUE(key.ok()) << key.status();
    const std::string bearer = "Authorization: Bearer " + key->text + "\r\n";
    const RawResponse made =
        Ask(Post("/v1/conversations" + (conversation.empty() ? "" : "/" + conversation + "/fork"),
                 "{}", bearer));
    ASSERT_EQ(made.status, 200) << made.body;
    const size_t at = made.body.find("conv_");
    ASSERT_NE(at, std::string::npos);
    conversation = made.body.substr(at, made.body.find('"', at) - at);
  }
  int64_t owners = 0;
  EXPECT_TRUE(store_
                  ->ReadNow([&](store::Database& rows) -> Status {
                    ASSIGN_OR_RETURN(store::Statement row,
                                     rows.Prepare("SELECT count(DISTINCT owner) FROM dialog "
                                                  "WHERE owner LIKE 'key:%'"));
                    ASSIGN_OR_RETURN(const bool found, row.Step());
                    if (found) owners = row.Int(0);
                    return OkStatus();
                  })
                  .ok());
  EXPECT_EQ(owners, 2);
}

// The caller is passed with every request to the inference API, also to tokenizers.
TEST_F(LimitsTest, TheCallerIsThePrincipal) {
  api::CallerRef caller;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    caller = generation->request.caller;
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.tenant = "acme";
  spec.grant.scopes.models = {"fake"};
  spec.grant.limits.concurrency = 3;
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  ASSERT_EQ(
      Ask(Post("/v1/chat/completions", kChatBody, "Authorization: Bearer " + key->text + "\r\n"))
          .status,
      200);
  ASSERT_NE(caller, nullptr);
  EXPECT_EQ(caller->tenant, "acme");
  EXPECT_EQ(caller->credential, "key:" + key->record.id);
  EXPECT_EQ(caller->models, std::vector<std::string>{"fake"});
  EXPECT_EQ(caller->limits.concurrency, 3);
}

}  // namespace
}  // namespace tutti::http::testing
