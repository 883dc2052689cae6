// Answers of encoders that are too large for an I/O thread: the helper that makes them, and their
// memory limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/parse.hpp>
#include <future>
#include <string>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
namespace json = boost::json;

class LargeAnswerTest : public ServerTest {
 protected:
  LargeAnswerTest() {
    api::EncoderInfo wide;
    wide.width = 384;
    inference_.Add(MakeFakeEncoder("wide", wide));
  }
  // `count` texts, "t0" and so on.
  static std::string Body(int count, const std::string& more = "") {
    std::string body = R"({"model":"wide",)" + more + R"("input":[)";
    for (int i = 0; i < count; ++i) body += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\"";
    return body + "]}";
  }
  static void ExpectAll(const RawResponse& response, size_t count) {
    ASSERT_EQ(response.status, 200) << response.body.substr(0, 300);
    ASSERT_TRUE(response.complete);
    const json::value body = json::parse(response.body);
    ASSERT_EQ(body.at("data").as_array().size(), count);
    for (size_t i = 0; i < count; i += i < 20 ? 1 : 97) {
      const std::vector<float> row = FakeRow("t" + std::to_string(i), 384);
      const json::array& given = body.at("data").at(i).at("embedding").as_array();
      ASSERT_EQ(given.size(), row.size());
      for (size_t j = 0; j < row.size(); ++j) ASSERT_EQ(given[j].to_number<float>(), row[j]);
    }
  }
};

TEST_F(LargeAnswerTest, TwoThousandAndFortyEightVectorsComeWhole) {
  StartServer();
  ExpectAll(Ask(Post("/v1/embeddings", Body(2048))), 2048);
  const RawResponse base64 =
      Ask(Post("/v1/embeddings", Body(2048, R"("encoding_format":"base64",)")));
  const json::value body = json::parse(base64.body);
  EXPECT_EQ(body.at("data").at(2047).at("embedding").as_string().size(), 384u * 4 / 3 * 4);
  EXPECT_EQ(Ask(Post("/v1/embeddings", Body(2049))).status, 400);
}

TEST_F(LargeAnswerTest, SmallAndLargeFollowEachOtherOnOneConnection) {
  StartServer();
  RawClient client(port());
  for (const int count : {1, 300, 2, 12, 500, 1}) {
    client.Send(Post("/v1/embeddings", Body(count)));
    ExpectAll(client.Read(), static_cast<size_t>(count));
  }
}

TEST_F(LargeAnswerTest, AnHttp10ClientGetsItWholeAndThenTheEnd) {
  StartServer();
  const std::string body = Body(300);
  RawClient client(port());
  client.Send("POST /v1/embeddings HTTP/1.0\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  ExpectAll(client.Read(), 300);
  EXPECT_TRUE(client.WaitClosed());
}

// And no helper either that others wait for.
TEST_F(LargeAnswerTest, NobodyWaitsWhileOneIsMade) {
  std::promise<void> gate;
  std::atomic<int> large{0};
  inference_.on_take = [&](size_t floats) {
    if (floats > 4096 && large.fetch_add(1) == 0) gate.get_future().wait();
  };
  HttpOptions options;
  options.io_threads = 1;
  StartServer(options);
  RawClient bulk(port()), next(port());
  bulk.Send(Post("/v1/embeddings", Body(2048)));
  ASSERT_TRUE(Eventually([&] { return large.load() == 1; }));
  next.Send(Post("/v1/embeddings", Body(12)));
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
  ExpectAll(Ask(Post("/v1/embeddings", Body(10))), 10);
  EXPECT_EQ(Ask(Post("/tokenize", R"({"prompt":")" + std::string(9000, 'x') + "\"}")).status, 200);
  RawClient chat(port());
  chat.Send(
      Post("/v1/chat/completions", R"({"model":"fake","messages":[{"role":"user","content":")" +
                                       std::string(64 << 10, 'x') + R"("}]})"));
  EXPECT_NE(inference_.Generation(0), nullptr);
  EXPECT_EQ(large.load(), 1);
  gate.set_value();
  ExpectAll(bulk.Read(), 2048);
  ExpectAll(next.Read(), 12);
}

TEST_F(LargeAnswerTest, AnswersThatNobodyFetchesCountAndAreDropped) {
  HttpOptions options;
  options.limits.held_bytes = 20 << 20;  // one answer of 10 MB, and while it is made its floats
  options.limits.reader_stall = std::chrono::seconds(support::kSlower > 1 ? 8 : 1);
  StartServer(options);
  RawClient stopped(port(), 4096);
  stopped.Send(Post("/v1/embeddings", Body(2048)));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  RawResponse refused;
  EXPECT_TRUE(Eventually([&] {
    refused = Ask(Post("/v1/embeddings", Body(2048)));
    return refused.status == 503;
  })) << "the first answer still lies here";
  EXPECT_EQ(CodeOf(refused), "overloaded");
  EXPECT_EQ(Ask(Post("/v1/embeddings", Body(12))).status, 200) << "small ones fit as well";
  EXPECT_TRUE(Eventually([&] { return Ask(Post("/v1/embeddings", Body(2048))).status == 200; }))
      << "a reader that takes nothing is dropped, and its bytes with it";
}

TEST_F(LargeAnswerTest, WhatNeverFitsIsSaidToBeTooLarge) {
  HttpOptions options;
  options.limits.held_bytes = 1 << 20;
  StartServer(options);
  const RawResponse refused = Ask(Post("/v1/embeddings", Body(2048)));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(CodeOf(refused), "request_too_large");
  EXPECT_EQ(Ask(Post("/v1/embeddings", Body(30))).status, 200);
}

TEST_F(LargeAnswerTest, DocumentsThatComeBackCountWhileTheyWait) {
  inference_.holds_encodings = true;
  HttpOptions options;
  options.limits.held_bytes = 300'000;
  StartServer(options);
  std::string documents;
  for (int i = 0; i < 4000; ++i) documents += "0123456789012345678901234567890123456789012345678";
  const std::string body =
      R"({"query":"q","truncate_prompt_tokens":-1,"documents":[")" + documents + "\"]}";
  RawClient first(port()), second(port());
  first.Send(Post("/v1/rerank", body));
  ASSERT_NE(inference_.Encoding(0), nullptr);
  second.Send(Post("/v1/rerank", body));
  EXPECT_EQ(second.Read().status, 503);
  first.Close();
  EXPECT_TRUE(Eventually([&] { return inference_.Encoding(0)->cancelled.load(); }));
  RawClient third(port());
  third.Send(Post("/v1/rerank", body));
  EXPECT_NE(inference_.Encoding(1), nullptr) << "all was given back";
}

TEST_F(LargeAnswerTest, AnAnswerForAClientThatLeftIsNotMade) {
  inference_.holds_encodings = true;
  StartServer();
  for (size_t i = 0; i < 8; ++i) {
    RawClient client(port());
    client.Send(Post("/v1/embeddings", Body(1000)));
    const auto encoding = inference_.Encoding(i);
    ASSERT_NE(encoding, nullptr);
    encoding->Answer();
    if (i % 2 == 0) client.Reset();  // while it is being made, perhaps
  }
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 0; }));
  inference_.holds_encodings = false;
  ExpectAll(Ask(Post("/v1/embeddings", Body(100))), 100);
}

TEST_F(LargeAnswerTest, StoppingWaitsForNoAnswer) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<RawClient>(port(), 4096));
    clients.back()->Send(Post("/v1/embeddings", Body(2048)));
  }
  ASSERT_NE(inference_.Encoding(5), nullptr);
  server_->Stop();
  EXPECT_EQ(server_->open_connections(), 0);
}

}  // namespace
}  // namespace tutti::http
