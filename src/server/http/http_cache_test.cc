// The cache report in the head of an answer: for streams, and for KServe's routes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "api/answer_cache.h"
#include "server/http/testing/kserve_fixture.h"

namespace tutti::http::testing {
namespace {

using api::CacheOutcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kResponse = R"({"model":"fake","input":"hi","stream":true})";
constexpr const char* kTwoPrompts =
    R"({"model":"fake","prompt":["a","b"],"stream":true,"max_tokens":4})";

HttpOptions Telling() {
  HttpOptions options;
  options.tells_cache = true;
  return options;
}

class CacheServerTest : public ServerTest {
 protected:
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }
  // Whether no part of the answer has arrived within 200 ms.
  static bool Silent(RawClient& client) { return !client.WaitFor("HTTP/1.1 ", 200); }
};

TEST_F(CacheServerTest, AResponsesStreamBeginsWhenItsOutcomeIsKnown) {
  StartServer(Telling());
  RawClient client(port());
  client.Send(Post("/v1/responses", kResponse));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_TRUE(Silent(client));
  generation->request.cache_report->Set(CacheOutcome::kHit, seconds(3));
  generation->Started();
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("response.in_progress")) << "before there is any text";
  generation->Token("one");
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("x-cache"), "hit");
  EXPECT_EQ(response.Header("age"), "3");
  EXPECT_THAT(response.body, StartsWith("event: response.created\ndata: {"));
}

TEST_F(CacheServerTest, WithoutACacheAResponsesStreamBeginsAtOnce) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/responses", kResponse));
  ASSERT_TRUE(client.WaitFor("response.created"));
  ASSERT_NE(inference_.Generation(0), nullptr);
  inference_.Generation(0)->Answer({"one"});
  EXPECT_EQ(client.Read().Header("x-cache"), "");
}

TEST_F(CacheServerTest, NoHeadWaitsLongerThanForTheFirstKeepAlive) {
  HttpOptions options = Telling();
  options.keepalive = milliseconds(300);
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/responses", kResponse));
  ASSERT_TRUE(client.WaitFor("response.created")) << "nobody has said anything of a cache";
  ASSERT_TRUE(client.WaitFor("\n:")) << "and comments go on";
  const auto generation = inference_.Generation(0);
  generation->request.cache_report->Set(CacheOutcome::kMiss, {});
  generation->Answer({"one"});
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("x-cache"), "");
  EXPECT_THAT(response.body, HasSubstr("response.completed"));
}

TEST_F(CacheServerTest, AStreamOfSeveralPromptsSaysWhatIsTrueOfAll) {
  StartServer(Telling());
  RawClient client(port());
  client.Send(Post("/v1/completions", kTwoPrompts));
  const auto first = inference_.Generation(0), second = inference_.Generation(1);
  ASSERT_NE(second, nullptr);
  first->request.cache_report->Set(CacheOutcome::kHit, seconds(9));
  first->Answer({"one"});
  EXPECT_TRUE(Silent(client));
  second->request.cache_report->Set(CacheOutcome::kMiss, {});
  second->Started();
  second->Wake();
  ASSERT_TRUE(client.WaitFor("one")) << "before there is any text of the second";
  second->Token("two");
  second->ChoiceEnd();
  second->End();
  second->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("x-cache"), "miss");
  EXPECT_EQ(response.Header("age"), "");
  EXPECT_THAT(response.body, HasSubstr("two"));
}

// Regression: bytes waiting for the head counted as bytes waiting for the socket, and the second
// prompt was never read.
TEST_F(CacheServerTest, ALongFirstAnswerDoesNotKeepTheSecondFromBeingAsked) {
  HttpOptions options = Telling();
  options.limits.unsent_bytes = 1024;
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/completions", kTwoPrompts));
  const auto first = inference_.Generation(0), second = inference_.Generation(1);
  ASSERT_NE(second, nullptr);
  first->request.cache_report->Set(CacheOutcome::kHit, {});
  first->Answer({std::string(4000, 'x')});
  EXPECT_TRUE(Silent(client));
  second->request.cache_report->Set(CacheOutcome::kJoin, {});
  second->Answer({"two"});
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("x-cache"), "join");
  EXPECT_THAT(response.body, HasSubstr("two"));
}

class KserveCacheTest : public KserveServerTest {
 protected:
  void SetUp() override {
    models_.on_generate = [](const auto& generation) {
      const api::GenerateRequest& request = generation->request;
      request.cache_report->Set(request.cache.no_store ? CacheOutcome::kBypass : CacheOutcome::kHit,
                                seconds(2));
      generation->Answer({"one"});
      return OkStatus();
    };
    models_.on_encode = [](const auto& encoding) {
      encoding->request.cache_report->Set(CacheOutcome::kMiss, {});
      encoding->Answer();
      return OkStatus();
    };
    StartServer(Telling());
  }
};

TEST_F(KserveCacheTest, ItsAnswersHaveTheFieldsOfAllOthers) {
  const std::string chat = R"({"text_input":"Hi","parameters":{"temperature":0}})";
  const std::string infer =
      R"({"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":["Hi"]}]})";
  for (const auto& [path, body] : {std::pair(std::string("/v2/models/chat/generate"), chat),
                                   std::pair(std::string("/v2/models/chat/generate_stream"), chat),
                                   std::pair(std::string("/v2/models/chat/infer"), infer)}) {
    const RawResponse hit = Ask(Post(path, body));
    EXPECT_EQ(hit.status, 200) << path << hit.body;
    EXPECT_EQ(hit.Header("x-cache"), "hit") << path;
    EXPECT_EQ(hit.Header("age"), "2") << path;
    EXPECT_EQ(Ask(Post(path, body, "Cache-Control: no-store\r\n")).Header("x-cache"), "bypass")
        << path;
  }
  const std::string texts =
      R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["Hi"]}]})";
  const RawResponse vectors = Ask(Post("/v2/models/minilm/infer", texts));
  EXPECT_EQ(vectors.status, 200) << vectors.body;
  EXPECT_EQ(vectors.Header("x-cache"), "miss");
}

TEST_F(KserveCacheTest, AModelThatNobodyKeepsAnswersOfSaysNothing) {
  const std::string body =
      R"({"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":[)"
      R"(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]},{"name":"INPUT1","shape":[1,16],)"
      R"("datatype":"INT32","data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]})";
  const RawResponse response = Ask(Post("/v2/models/simple/infer", body));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Header("x-cache"), "");
}

}  // namespace
}  // namespace tutti::http::testing
