// Idempotency-Key on requests that are answered at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/testing/server_fixture.h"
#include "temp_folder.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kKeyField = "Idempotency-Key: k1\r\n";

class HttpRepeatsTest : public ServerTest {
 protected:
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }
  void AnswerAll(const std::vector<std::string>& tokens = {"one"}) {
    inference_.on_generate = [tokens](const auto& generation) {
      generation->Answer(tokens);
      return OkStatus();
    };
  }
  std::string Chat(const std::string& fields = kKeyField) {
    return Post("/v1/chat/completions", kChatBody, fields);
  }
  // Waits until the answers are in the store.
  void Settle() {
    ASSERT_TRUE(store_->ReadNow([](store::Database&) { return OkStatus(); }).ok());
  }
};

TEST_F(HttpRepeatsTest, TheSameAgainIsGivenTheAnswerOfThen) {
  AnswerAll();
  StartServer();
  const RawResponse first = Ask(Chat());
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.Header("idempotency-replayed"), "");
  for (int i = 0; i < 2; ++i) {
    const RawResponse again = Ask(Chat());
    EXPECT_EQ(again.status, 200);
    EXPECT_EQ(again.Header("idempotency-replayed"), "true");
    EXPECT_EQ(again.body, first.body);
    EXPECT_EQ(again.Header("content-type"), "application/json");
    EXPECT_NE(again.Header("x-request-id"), first.Header("x-request-id"));
    Settle();
  }
  EXPECT_EQ(inference_.generations(), 1u);
  EXPECT_EQ(Ask(Chat("")).Header("idempotency-replayed"), "");
  EXPECT_EQ(Ask(Chat("Idempotency-Key: k2\r\n")).Header("idempotency-replayed"), "");
  EXPECT_EQ(inference_.generations(), 3u);
}

TEST_F(HttpRepeatsTest, AnotherBodyUnderAKeyIsRefusedAndAnotherRouteIsAnotherKey) {
  AnswerAll();
  StartServer();
  ASSERT_EQ(Ask(Chat()).status, 200);
  const RawResponse other =
      Ask(Post("/v1/chat/completions",
               R"({"model":"fake","messages":[{"role":"user","content":"other"}]})", kKeyField));
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(CodeOf(other), "idempotency_key_mismatch");
  EXPECT_EQ(other.Header("x-should-retry"), "false");
  const RawResponse text =
      Ask(Post("/v1/completions", R"({"model":"fake","prompt":"hi"})", kKeyField));
  EXPECT_EQ(text.status, 200);
  EXPECT_EQ(text.Header("idempotency-replayed"), "");
  // The same, written otherwise.
  const RawResponse same = Ask(Post(
      "/v1/chat/completions",
      R"({ "model": "fake", "messages": [ {"role":"user","content":"h\u0069"} ] })", kKeyField));
  EXPECT_EQ(same.Header("idempotency-replayed"), "true");
}

TEST_F(HttpRepeatsTest, WhatIsNoKeyIsRefused) {
  StartServer();
  for (const std::string& key :
       {std::string(256, 'k'), std::string("a b"), std::string("\xc3\xa9"), std::string("")}) {
    const RawResponse refused = Ask(Chat("Idempotency-Key: " + key + "\r\n"));
    EXPECT_EQ(refused.status, 400) << key;
    EXPECT_EQ(CodeOf(refused), "invalid_value") << key;
  }
  EXPECT_EQ(Ask(Chat("Idempotency-Key: a\r\nIdempotency-Key: b\r\n")).status, 400);
  EXPECT_EQ(inference_.generations(), 0u);
  AnswerAll();
  EXPECT_EQ(Ask(Chat("Idempotency-Key: " + std::string(255, 'k') + "\r\n")).status, 200);
}

TEST_F(HttpRepeatsTest, WhoSendsItMeanwhileWaitsForTheAnswer) {
  StartServer();
  RawClient first(port()), second(port());
  ASSERT_TRUE(first.Send(Chat()));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  ASSERT_TRUE(second.Send(Chat()));
  EXPECT_FALSE(second.WaitFor("HTTP", 200));
  generation->Answer({"one"});
  const RawResponse answer = first.Read(), attached = second.Read();
  EXPECT_EQ(answer.Header("idempotency-replayed"), "");
  EXPECT_EQ(attached.Header("idempotency-replayed"), "true");
  EXPECT_EQ(attached.body, answer.body);
  EXPECT_EQ(inference_.generations(), 1u);
}

TEST_F(HttpRepeatsTest, WhereTheFirstHasLeftWhoWaitsIsComputed) {
  StartServer();
  auto first = std::make_unique<RawClient>(port());
  RawClient second(port());
  ASSERT_TRUE(first->Send(Chat()));
  const auto begun = inference_.Generation(0);
  ASSERT_NE(begun, nullptr);
  ASSERT_TRUE(second.Send(Chat()));
  EXPECT_FALSE(second.WaitFor("HTTP", 200));
  first.reset();
  const auto again = inference_.Generation(1);
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(Eventually([&] { return begun->cancelled.load(); }));
  again->Answer({"two"});
  const RawResponse response = second.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("idempotency-replayed"), "");
  EXPECT_THAT(response.body, HasSubstr("two"));
}

TEST_F(HttpRepeatsTest, IsNoWayToTheAnswersOfAModelThatOneMayNotUse) {
  AnswerAll();
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  auth::KeySpec spec{.name = "ci", .grant = {}, .expires_s = {}};
  spec.grant.scopes.models = {"fake-embed"};
  const auto key = known_->accounts().CreateKey(spec, time(nullptr));
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string all = "Authorization: Bearer " + options.api_key + "\r\n" + kKeyField;
  ASSERT_EQ(Ask(Chat(all)).status, 200);
  EXPECT_EQ(Ask(Chat(all)).Header("idempotency-replayed"), "true");
  const RawResponse other = Ask(Chat("Authorization: Bearer " + key->text + "\r\n" + kKeyField));
  EXPECT_EQ(other.Header("idempotency-replayed"), "") << "it is asked anew, and the model refuses";
  EXPECT_EQ(inference_.generations(), 2u);
}

TEST_F(HttpRepeatsTest, ARefusalIsNotKept) {
  inference_.on_generate = [](const auto&) { return Unavailable("queue_full", "too many wait"); };
  StartServer();
  EXPECT_EQ(Ask(Chat()).status, 503);
  inference_.on_generate = [](const auto& generation) {
    generation->End(Unavailable("engine_stalled", "the engine restarts"));
    generation->Wake();
    return OkStatus();
  };
  EXPECT_EQ(Ask(Chat()).status, 503);
  AnswerAll();
  const RawResponse answer = Ask(Chat());
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Header("idempotency-replayed"), "");
}

TEST_F(HttpRepeatsTest, AStreamIsNotKeptAndRefusesItsKeyWhileItRuns) {
  StartServer();
  RawClient first(port());
  ASSERT_TRUE(first.Send(Post("/v1/chat/completions", kChatStreamBody, kKeyField)));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Started();
  generation->Token("one");
  generation->Wake();
  ASSERT_TRUE(first.WaitFor("one"));
  const RawResponse refused = Ask(Post("/v1/chat/completions", kChatStreamBody, kKeyField));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(CodeOf(refused), "idempotency_in_progress");
  EXPECT_EQ(refused.Header("retry-after"), "1");
  EXPECT_EQ(CodeOf(Ask(Chat())), "idempotency_key_mismatch") << "another body";
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  EXPECT_EQ(first.Read().status, 200);
  AnswerAll();
  // Computed again; the key is released shortly after the last byte.
  EXPECT_TRUE(Eventually(
      [&] { return Ask(Post("/v1/chat/completions", kChatStreamBody, kKeyField)).status == 200; }));
  EXPECT_EQ(inference_.generations(), 2u);
}

TEST_F(HttpRepeatsTest, ALongBodyIsReadOnAHelperAndStillWhole) {
  inference_.on_generate = [](const auto& generation) {
    const auto& chat = std::get<api::ChatPrompt>(generation->request.prompt);
    generation->Answer({std::to_string(chat.messages[0].content.size())});
    return OkStatus();
  };
  StartServer();
  const std::string body = R"({"model":"fake","messages":[{"role":"user","content":")" +
                           std::string(200'000, 'x') + R"("}]})";
  const RawResponse first = Ask(Post("/v1/chat/completions", body, kKeyField));
  EXPECT_THAT(first.body, HasSubstr("200000"));
  const RawResponse again = Ask(Post("/v1/chat/completions", body, kKeyField));
  EXPECT_EQ(again.Header("idempotency-replayed"), "true");
  EXPECT_EQ(again.body, first.body);
}

TEST_F(HttpRepeatsTest, EncodersResponsesAndKserveHaveItToo) {
  AnswerAll();
  StartServer();
  for (const auto& [path, body] :
       {std::pair("/v1/embeddings", R"({"model":"fake-embed","input":"a"})"),
        std::pair("/rerank", R"({"query":"a","documents":["a","b"]})"),
        std::pair("/v1/score", R"({"text_1":"a","text_2":"b"})"),
        std::pair("/v1/responses", R"({"model":"fake","input":"hi"})"),
        std::pair("/v2/models/fake/generate", R"({"text_input":"hi"})")}) {
    const RawResponse first = Ask(Post(path, body, kKeyField));
    ASSERT_EQ(first.status, 200) << path << first.body;
    EXPECT_EQ(first.Header("idempotency-replayed"), "") << path;
    const RawResponse again = Ask(Post(path, body, kKeyField));
    EXPECT_EQ(again.Header("idempotency-replayed"), "true") << path;
    EXPECT_EQ(again.body, first.body) << path;
  }
}

TEST_F(HttpRepeatsTest, ARestartKeepsWhatWasAnsweredAndForgetsWhatWasCut) {
  const support::TempFolder folder;
  store_folder_ = folder.path();
  AnswerAll();
  StartServer();
  const RawResponse first = Ask(Chat());
  inference_.on_generate = nullptr;
  RawClient cut(port());
  ASSERT_TRUE(cut.Send(Chat("Idempotency-Key: cut\r\n")));
  ASSERT_NE(inference_.Generation(1), nullptr);
  server_.reset();
  StopServices();
  AnswerAll({"two"});
  StartServer();
  const RawResponse again = Ask(Chat());
  EXPECT_EQ(again.Header("idempotency-replayed"), "true");
  EXPECT_EQ(again.body, first.body);
  const RawResponse anew = Ask(Chat("Idempotency-Key: cut\r\n"));
  EXPECT_EQ(anew.Header("idempotency-replayed"), "");
  EXPECT_THAT(anew.body, HasSubstr("two"));
}

TEST_F(HttpRepeatsTest, OnAFullDiskTheAnswerIsGivenAndNotKept) {
  StartServer();
  ASSERT_TRUE(
      store_->ReadNow([](store::Database& rows) { return rows.Execute("PRAGMA max_page_count=1"); })
          .ok());  // it is never less than there are
  AnswerAll({std::string(100'000, 'x')});
  for (int i = 0; i < 2; ++i) {
    const RawResponse answer = Ask(Chat());
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body.size() > 100'000, true);
    Settle();
  }
  EXPECT_EQ(inference_.generations(), 2u);
  EXPECT_EQ(idempotency_keys_->counts().unkept, 2u);
}

TEST_F(HttpRepeatsTest, TheOldestAnswersOfATenantGoFirst) {
  idempotency_options_.limits.rows = 2;
  AnswerAll();
  StartServer();
  const auto replayed = [&](const std::string& key) {
    const RawResponse answer = Ask(Chat("Idempotency-Key: " + key + "\r\n"));
    EXPECT_EQ(answer.status, 200);
    Settle();
    return answer.Header("idempotency-replayed") == "true";
  };
  for (const char* key : {"a", "b", "c"}) EXPECT_FALSE(replayed(key));
  EXPECT_TRUE(replayed("b"));
  EXPECT_TRUE(replayed("c"));
  EXPECT_FALSE(replayed("a"));
}

TEST_F(HttpRepeatsTest, WithoutAStoreTheKeyMeansNothing) {
  has_services_ = false;
  AnswerAll();
  StartServer();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Ask(Chat()).Header("idempotency-replayed"), "");
  EXPECT_EQ(inference_.generations(), 2u);
}

}  // namespace
}  // namespace tutti::http::testing
