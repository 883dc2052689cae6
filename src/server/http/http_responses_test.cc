// The Responses and Conversations API over HTTP, with a scripted model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <string>

#include "api/models.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ResponsesTest : public ServerTest {
 protected:
  void SetUp() override {
    inference_.on_generate = [this](const std::shared_ptr<FakeGeneration>& generation) {
      if (generation->request.model == "no-such") return api::ModelNotFound("no-such");
      if (holds_.load()) {
        const std::lock_guard lock(mutex_);
        held_ = generation;
      } else {
        generation->AppendAnswer({"one", " two", " three"});
      }
      return OkStatus();
    };
    StartServer();
  }
  std::shared_ptr<FakeGeneration> Held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  RawResponse Create(const std::string& members) {
    return Ask(Post("/v1/responses", R"({"model":"fake","input":"hi")" + members + "}"));
  }
  static std::string Delete(const std::string& path, const std::string& headers = "") {
    return "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
  }
  // The first value of a member that is a text.
  static std::string TextOf(const std::string& body, const std::string& member) {
    const std::string mark = "\"" + member + "\":\"";
    const size_t at = body.find(mark);
    if (at == std::string::npos) return "";
    const size_t start = at + mark.size();
    return body.substr(start, body.find('"', start) - start);
  }
  std::string NewConversation(const std::string& body) {
    return TextOf(Ask(Post("/v1/conversations", body)).body, "id");
  }

  int64_t Count(const std::string& sql) {
    int64_t rows = -1;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& database) -> Status {
                      ASSIGN_OR_RETURN(store::Statement row, database.Prepare(sql));
                      ASSIGN_OR_RETURN(const bool found, row.Step());
                      if (found) rows = row.Int(0);
                      return OkStatus();
                    })
                    .ok());
    return rows;
  }

  std::atomic<bool> holds_{false};
  std::mutex mutex_;
  std::shared_ptr<FakeGeneration> held_;
};

TEST_F(ResponsesTest, AnAnswerHasAnIdByWhichItIsReadAgainUntilItIsDeleted) {
  const RawResponse made = Create("");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = TextOf(made.body, "id");
  EXPECT_THAT(id, StartsWith("resp_"));
  EXPECT_THAT(made.body, HasSubstr(R"("status":"completed")"));
  EXPECT_EQ(Ask(Get("/v1/responses/" + id)).body, made.body);
  EXPECT_THAT(Ask(Get("/v1/responses/" + id + "/input_items")).body, HasSubstr(R"("text":"hi")"));
  EXPECT_EQ(Ask(Delete("/v1/responses/" + id)).status, 200);
  EXPECT_EQ(Ask(Get("/v1/responses/" + id)).status, 404);
  EXPECT_EQ(Ask(Delete("/v1/responses/" + id)).status, 404);
}

TEST_F(ResponsesTest, ItsEventsAreReplayedFromAnyPlace) {
  const RawResponse stream = Create(R"(,"stream":true)");
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_THAT(stream.Header("content-type"), StartsWith("text/event-stream"));
  EXPECT_THAT(stream.body, StartsWith("event: response.created\ndata: {"));
  const std::string id = TextOf(stream.body, "id");
  EXPECT_EQ(Ask(Get("/v1/responses/" + id + "?stream=true")).body, stream.body);
  const std::string path = "/v1/responses/" + id + "?stream=true&starting_after=";
  std::string rest = stream.body;
  int seen = 0;
  for (; rest.find("\n\n") + 2 < rest.size(); ++seen) {
    rest.erase(0, rest.find("\n\n") + 2);
    EXPECT_EQ(Ask(Get(path + std::to_string(seen))).body, rest) << seen;
  }
  // A client that has all events gets an empty stream that ends.
  const RawResponse nothing = Ask(Get(path + std::to_string(seen)));
  EXPECT_EQ(nothing.status, 200);
  EXPECT_EQ(nothing.body, "");
}

// Regression: an empty stream was sent, as if all events had been sent before.
TEST_F(ResponsesTest, AStreamThatIsResumedBeyondItsEndIsRefusedWithTheLastNumber) {
  const auto refused = [&](const std::string& id, int64_t last) {
    const std::string path = "/v1/responses/" + id + "?stream=true&starting_after=";
    for (const int64_t beyond : {last + 1, last + 1000, INT64_MAX}) {
      const RawResponse response = Ask(Get(path + std::to_string(beyond)));
      EXPECT_EQ(response.status, 400) << response.body;
      EXPECT_EQ(CodeOf(response), "invalid_value");
      EXPECT_THAT(response.body, HasSubstr("invalid_request_error"));
      EXPECT_EQ(TextOf(response.body, "param"), "starting_after");
      EXPECT_THAT(response.body, HasSubstr("has number " + std::to_string(last) + "\""));
    }
  };
  const std::string conversation = R"(,"conversation":")" + NewConversation("{}") + "\"";
  for (const std::string& in : {std::string(), conversation}) {
    const std::string stream = Create(in + R"(,"stream":true)").body;
    int64_t last = -1;
    for (size_t at = 0; (at = stream.find("\n\n", at)) != std::string::npos; at += 2) ++last;
    refused(TextOf(stream, "id"), last);
  }
  holds_.store(true);
  const RawResponse running = Create(R"(,"background":true)");
  ASSERT_TRUE(Eventually([&] { return Held() != nullptr; }));
  refused(TextOf(running.body, "id"), 1);  // created and queued have been sent
  Held()->Answer({"late"});
}

// Regression: the stream began with MQTT's `accepted`, which the stock client's helper rejects.
TEST_F(ResponsesTest, TheStreamOfAConversationsTurnBeginsWithCreatedAsNumberZero) {
  const std::string in = R"(,"conversation":")" + NewConversation("{}") + "\"";
  const RawResponse stream = Create(in + R"(,"stream":true)");
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_THAT(stream.body,
              StartsWith("event: response.created\ndata: {\"type\":\"response.created\","
                         "\"sequence_number\":0,"));
  EXPECT_EQ(stream.body.find("accepted"), std::string::npos) << stream.body;
  const std::string path =
      "/v1/responses/" + TextOf(stream.body, "id") + "?stream=true&starting_after=";
  std::string rest = stream.body;
  int seen = 0;
  for (; !rest.empty(); ++seen) {
    EXPECT_THAT(rest, HasSubstr("\"sequence_number\":" + std::to_string(seen) + ","));
    EXPECT_LT(rest.find("\"sequence_number\":" + std::to_string(seen) + ","), rest.find("\n\n"));
    rest.erase(0, rest.find("\n\n") + 2);
    EXPECT_EQ(Ask(Get(path + std::to_string(seen))).body, rest) << seen;
  }
  EXPECT_GT(seen, 8);
}

TEST_F(ResponsesTest, DeltasArePaddedForWhoAsksAndNobodyElse) {
  const std::string padded =
      Create(R"(,"stream":true,"store":true,"stream_options":{"include_obfuscation":true})").body;
  size_t paddings = 0;
  for (size_t at = padded.find("\"obfuscation\":\"x"); at != std::string::npos;
       at = padded.find("\"obfuscation\":\"x", at + 1))
    ++paddings;
  EXPECT_EQ(paddings, 3u) << padded;
  const std::string again = "/v1/responses/" + TextOf(padded, "id") + "?stream=true";
  EXPECT_EQ(Ask(Get(again)).body.find("obfuscation"), std::string::npos);
  EXPECT_NE(Ask(Get(again + "&include_obfuscation=true")).body.find("\"obfuscation\":\"x"),
            std::string::npos);
}

// Regression: over HTTP, dialogs without truncation were cut to the service's window instead of the
// model's.
TEST_F(ResponsesTest, WithoutTruncationALongDialogIsRefusedAndNotCut) {
  const std::string id = NewConversation("{}");
  const std::string in = R"(,"conversation":")" + id + R"(","truncation":"disabled")";
  const RawResponse first = Create(in);
  EXPECT_EQ(first.status, 200) << first.body;
  // The fake's window is 128 tokens, a byte each.
  const RawResponse second = Ask(Post(
      "/v1/responses", R"({"model":"fake","input":")" + std::string(200, 'a') + '"' + in + "}"));
  EXPECT_EQ(second.status, 400) << second.body;
  EXPECT_NE(second.body.find("context_length_exceeded"), std::string::npos) << second.body;
}

TEST_F(ResponsesTest, WhatTheQueryAsksWronglyIsRefused) {
  const std::string id = TextOf(Create("").body, "id");
  for (const char* query :
       {"?stream=yes", "?starting_after=1", "?stream=true&starting_after=-1",
        "?stream=true&starting_after=x", "?stream=true&stream=true", "?a=%zz"}) {
    const RawResponse response = Ask(Get("/v1/responses/" + id + query));
    EXPECT_EQ(response.status, 400) << query << response.body;
  }
}

// Regression: the id was sent before the request was on disk; after a crash at that moment the id
// was unknown.
TEST_F(ResponsesTest, AResponseInTheBackgroundIsToldOfOnceItsRequestIsInTheStore) {
  holds_ = true;
  std::promise<void> released;
  store_->Read(
      [wait = released.get_future().share()](store::Database&) {
        wait.wait();
        return OkStatus();
      },
      [](const Status&) {});
  RawClient client(port());
  ASSERT_TRUE(
      client.Send(Post("/v1/responses", R"({"model":"fake","input":"hi","background":true})")));
  ASSERT_TRUE(Eventually([&] { return Held() != nullptr; }));
  EXPECT_FALSE(client.Fill(200)) << client.buffer();
  released.set_value();
  const RawResponse made = client.Read();
  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_EQ(Count("SELECT count(*) FROM response WHERE id='" + TextOf(made.body, "id") + "'"), 1);
  Held()->AppendAnswer({"done"});
}

// Regression: the stream stayed open until the connection was cut.
TEST_F(ResponsesTest, AStreamOfAStoredAnswerThatADrainCutsShortEndsWithAnError) {
  holds_ = true;
  RawClient stream(port()), whole(port());
  stream.Send(Post("/v1/responses", R"({"model":"fake","input":"hi","stream":true})"));
  ASSERT_TRUE(Eventually([&] { return Held() != nullptr; }));
  const std::shared_ptr<FakeGeneration> streamed = Held();
  whole.Send(Post("/v1/responses", R"({"model":"fake","input":"hi"})"));
  ASSERT_TRUE(Eventually([&] { return Held() != streamed; }));
  for (const std::shared_ptr<FakeGeneration>& cut : {streamed, Held()}) {
    cut->Started();
    cut->Token("one");
    cut->End(Unavailable("draining", "the server is shutting down"));
    cut->Wake();
  }
  const RawResponse events = stream.Read();
  EXPECT_EQ(events.status, 200);
  EXPECT_THAT(events.body, HasSubstr(R"("delta":"one")"));
  EXPECT_THAT(events.body, HasSubstr("event: error\n"));
  EXPECT_THAT(events.body, HasSubstr(R"("code":"draining")"));
  EXPECT_THAT(events.body, Not(HasSubstr("response.failed"))) << "the next process goes on with it";
  const RawResponse refused = whole.Read();
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(CodeOf(refused), "draining");
}

TEST_F(ResponsesTest, AFailureBeforeAnythingWasSaidIsAnHttpError) {
  const RawResponse unknown = Ask(Post("/v1/responses", R"({"model":"no-such","input":"hi"})"));
  EXPECT_EQ(unknown.status, 404) << unknown.body;
  EXPECT_EQ(CodeOf(unknown), "model_not_found");
}

TEST_F(ResponsesTest, AConversationKeepsItsTurnsItsMetadataAndItsVersion) {
  const RawResponse made = Ask(Post("/v1/conversations", R"({"metadata":{"k":"v"}})"));
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = TextOf(made.body, "id");
  EXPECT_THAT(made.body, HasSubstr(R"("metadata":{"k":"v"})"));
  const std::string first_tag = made.Header("etag");
  const RawResponse turn = Create(R"(,"conversation":")" + id + "\"");
  ASSERT_EQ(turn.status, 200) << turn.body;
  const RawResponse items = Ask(Get("/v1/conversations/" + id + "/items?order=asc"));
  EXPECT_LT(items.body.find(R"("role":"user")"), items.body.find(R"("role":"assistant")"));
  EXPECT_NE(items.Header("etag"), first_tag);
  const RawResponse stale =
      Ask(Post("/v1/conversations/" + id + "/items", R"({"items":[{"role":"user","content":"x"}]})",
               "If-Match: " + first_tag + "\r\n"));
  EXPECT_EQ(stale.status, 412) << stale.body;
  EXPECT_EQ(CodeOf(stale), "version_mismatch");
  EXPECT_EQ(Ask(Get("/v1/conversations/" + id + "/items?order=asc")).body, items.body);
  const std::string path = "/v1/conversations/" + id, of_old = "If-Match: " + first_tag + "\r\n";
  EXPECT_EQ(Ask(Post(path, R"({"metadata":{"k":"w"}})", of_old)).status, 412);
  EXPECT_THAT(Ask(Get(path)).body, HasSubstr(R"("metadata":{"k":"v"})"));
  EXPECT_EQ(Ask(Delete(path, of_old)).status, 412);
  const std::string of_now = "If-Match: " + items.Header("etag") + "\r\n";
  const RawResponse changed = Ask(Post(path, R"({"metadata":{"k":"w"}})", of_now));
  EXPECT_EQ(changed.status, 200);
  // Regression: two updates with the same If-Match both succeeded, and the second overwrote the
  // first.
  EXPECT_EQ(Ask(Post(path, R"({"metadata":{"k":"x"}})", of_now)).status, 412);
  EXPECT_THAT(Ask(Get(path)).body, HasSubstr(R"("metadata":{"k":"w"})"));
  EXPECT_EQ(Ask(Get(path)).Header("etag"), changed.Header("etag"));
  EXPECT_EQ(Ask(Delete(path, of_now)).status, 412);
  EXPECT_EQ(Ask(Delete(path, "If-Match: " + changed.Header("etag") + "\r\n")).status, 200);
}

TEST_F(ResponsesTest, ListsConversationsByLastUse) {
  EXPECT_EQ(Ask(Get("/v1/conversations")).body,
            R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})");
  const std::string first =
      NewConversation(R"({"metadata":{"k":"v"},"items":[{"role":"user","content":"x"}]})");
  const std::string second = NewConversation("{}");
  const RawResponse page = Ask(Get("/v1/conversations?limit=1"));
  ASSERT_EQ(page.status, 200) << page.body;
  EXPECT_EQ(TextOf(page.body, "first_id"), second);
  EXPECT_THAT(page.body, HasSubstr(R"("has_more":true)"));
  const RawResponse rest = Ask(Get("/v1/conversations?after=" + second));
  EXPECT_EQ(TextOf(rest.body, "last_id"), first);
  EXPECT_THAT(rest.body, HasSubstr(R"("metadata":{"k":"v"},"version":)"));
  EXPECT_THAT(rest.body, HasSubstr(R"("item_count":1})"));
  EXPECT_EQ(TextOf(Ask(Get("/v1/conversations?before=" + first)).body, "first_id"), second);
  EXPECT_EQ(TextOf(Ask(Get("/v1/conversations?order=asc")).body, "first_id"), first);
  EXPECT_EQ(Ask(Get("/v1/conversations?after=conv_none")).status, 404);
  for (const std::string query : {"limit=0", "limit=101", "order=up", "before=a&after=b"})
    EXPECT_EQ(Ask(Get("/v1/conversations?" + query)).status, 400) << query;
}

TEST_F(ResponsesTest, ListsConversationsWithLongMetadata) {
  std::string pairs;
  for (int i = 0; i < 16; ++i)
    pairs += std::string(i == 0 ? "" : ",") + "\"k" + std::to_string(i) + "\":\"" +
             std::string(512, 'x') + "\"";
  for (int i = 0; i < 5; ++i) NewConversation(R"({"metadata":{)" + pairs + "}}");
  const RawResponse list = Ask(Get("/v1/conversations"));
  ASSERT_EQ(list.status, 200) << list.body;
  EXPECT_GT(list.body.size(), 5u * 16 * 512);
  EXPECT_THAT(list.body, HasSubstr(R"("k15":"xxx)"));
}

// Regression: the version was ignored, and the request was answered.
TEST_F(ResponsesTest, AVersionThatIsAskedForWithoutAConversationIsRefused) {
  for (const char* match : {"\"v1\"", "*", "x"}) {
    const RawResponse refused = Ask(Post("/v1/responses", R"({"model":"fake","input":"hi"})",
                                         "If-Match: " + std::string(match) + "\r\n"));
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_EQ(CodeOf(refused), "invalid_value");
  }
}

TEST_F(ResponsesTest, RepeatedIdWithOtherWordsIsConflict) {
  const std::string where = R"(,"id":"m1","conversation":")" + NewConversation("{}") + "\"";
  const RawResponse first = Create(where);
  ASSERT_EQ(first.status, 200) << first.body;
  const RawResponse again = Create(where);
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(TextOf(again.body, "id"), TextOf(first.body, "id"));
  const RawResponse other = Create(where + R"(,"instructions":"Be brief.")");
  EXPECT_EQ(other.status, 422) << other.body;
  EXPECT_EQ(CodeOf(other), "idempotency_key_mismatch");
}

TEST_F(ResponsesTest, AForkIsAConversationOfItsOwnWithTheSameBeginning) {
  const std::string id =
      NewConversation(R"({"items":[{"role":"user","content":"before"}],"metadata":{"k":"v"}})");
  const std::string fork = TextOf(Ask(Post("/v1/conversations/" + id + "/fork", "{}")).body, "id");
  EXPECT_THAT(fork, StartsWith("conv_"));
  EXPECT_NE(fork, id);
  Ask(Post("/v1/conversations/" + fork + "/items",
           R"({"items":[{"role":"user","content":"only"}]})"));
  EXPECT_THAT(Ask(Get("/v1/conversations/" + fork + "/items")).body, HasSubstr("before"));
  EXPECT_THAT(Ask(Get("/v1/conversations/" + fork + "/items")).body, HasSubstr("only"));
  EXPECT_THAT(Ask(Get("/v1/conversations/" + id + "/items")).body, Not(HasSubstr("only")));
  EXPECT_EQ(Ask(Delete("/v1/conversations/" + id)).status, 200);
  EXPECT_THAT(Ask(Get("/v1/conversations/" + fork + "/items")).body, HasSubstr("before"));
}

// Regression: the fork was made before its metadata was stored; if that failed, an unknown fork was
// left behind.
TEST_F(ResponsesTest, AForkWhoseMetadataCannotBeKeptIsNotMade) {
  const std::string id = NewConversation("{}");
  ASSERT_TRUE(store_
                  ->WriteNow([](store::Database& rows) {
                    return rows.Execute(
                        "CREATE TRIGGER refusing BEFORE UPDATE OF metadata ON dialog BEGIN "
                        "SELECT RAISE(ABORT, 'no'); END");
                  })
                  .ok());
  EXPECT_NE(Ask(Post("/v1/conversations/" + id + "/fork", R"({"metadata":{"k":"v"}})")).status,
            200);
  EXPECT_EQ(Count("SELECT count(*) FROM dialog"), 1);
}

TEST_F(ResponsesTest, AForkAtAVersionBeginsWithWhatWasSaidUpToIt) {
  const std::string id = NewConversation(R"({"items":[{"role":"user","content":"first"}]})");
  const std::string path = "/v1/conversations/" + id;
  const RawResponse second =
      Ask(Post(path + "/items", R"({"items":[{"role":"user","content":"second"}]})"));
  EXPECT_EQ(second.Header("etag"), "\"v2\"");
  const RawResponse fork =
      Ask(Post(path + "/fork", R"({"version":1,"metadata":{"k":"v"}})", "If-Match: \"v2\"\r\n"));
  ASSERT_EQ(fork.status, 200) << fork.body;
  EXPECT_EQ(fork.Header("etag"), "\"v1\"");
  EXPECT_THAT(fork.body, HasSubstr(R"("parent":{"id":")" + id + R"(","version":1})"));
  const std::string items =
      Ask(Get("/v1/conversations/" + TextOf(fork.body, "id") + "/items")).body;
  EXPECT_THAT(items, HasSubstr("first"));
  EXPECT_THAT(items, Not(HasSubstr("second")));
  for (const auto& [body, match, status, code] :
       {std::tuple(R"({"version":3})", "*", 412, "version_mismatch"),
        std::tuple(R"({"version":1})", "\"v1\"", 412, "version_mismatch"),
        std::tuple(R"({"version":-1})", "*", 400, "invalid_value")}) {
    const RawResponse refused =
        Ask(Post(path + "/fork", body, "If-Match: " + std::string(match) + "\r\n"));
    EXPECT_EQ(refused.status, status) << refused.body;
    EXPECT_EQ(CodeOf(refused), code);
  }
  Ask(Delete(path + "/items/" + TextOf(Ask(Get(path + "/items?order=asc")).body, "id")));
  const RawResponse gone = Ask(Post(path + "/fork", R"({"version":1})"));
  EXPECT_EQ(gone.status, 410) << gone.body;
  EXPECT_EQ(CodeOf(gone), "expired");
}

TEST_F(ResponsesTest, WhatThereIsNotIsNotFoundByAnyRoute) {
  for (const std::string& request :
       {Get("/v1/responses/resp_0"), Post("/v1/responses/resp_0/cancel", ""),
        Get("/v1/responses/resp_0/input_items"), Get("/v1/conversations/conv_0"),
        Delete("/v1/conversations/conv_0"), Get("/v1/conversations/conv_0/items"),
        Get("/v1/conversations/conv_0/items/msg_0"), Delete("/v1/conversations/conv_0/items/msg_0"),
        Post("/v1/conversations/conv_0", R"({"metadata":{}})"),
        Post("/v1/conversations/conv_0/fork", ""),
        Post("/v1/conversations/conv_0/items", R"({"items":[{"role":"user","content":"x"}]})"),
        Post("/v1/responses", R"({"model":"fake","input":"hi","conversation":"conv_0"})"),
        Post("/v1/responses",
             R"({"model":"fake","input":"hi","previous_response_id":"resp_0"})")}) {
    const RawResponse response = Ask(request);
    EXPECT_EQ(response.status, 404) << request << response.body;
  }
}

TEST_F(ResponsesTest, MethodsOfOnePathAreToldTogether) {
  const RawResponse response =
      Ask("PUT /v1/responses/resp_0 HTTP/1.1\r\nHost: localhost\r\n"
          "Content-Length: 0\r\n\r\n");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.Header("allow"), "GET, HEAD, DELETE, OPTIONS");
}

// A stored response continues when its reader disconnects; one that is not stored is cancelled.
TEST_F(ResponsesTest, AClientThatLeavesEndsWhatIsNotStoredAndNothingElse) {
  holds_.store(true);
  for (const bool stored : {false, true}) {
    {
      RawClient client(port());
      client.Send(Post("/v1/responses", std::string(R"({"model":"fake","input":"hi","store":)") +
                                            (stored ? "true}" : "false}")));
      ASSERT_TRUE(Eventually([&] { return Held() != nullptr; }));
    }
    const std::shared_ptr<FakeGeneration> generation = Held();
    EXPECT_EQ(Eventually([&] { return generation->cancelled.load(); }, stored ? 200 : kPatienceMs),
              !stored);
    generation->Answer({"late"});
    const std::lock_guard lock(mutex_);
    held_ = nullptr;
  }
}

}  // namespace
}  // namespace tutti::http::testing
