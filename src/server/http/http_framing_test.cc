// HTTP framing through a real socket: smuggling, limits of time and size, keep-alive, expectations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/testing/framing_cases.h"
#include "server/http/connection/message_parser.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

size_t CountResponses(const std::string& bytes) {
  size_t count = 0;
  for (size_t at = 0; (at = bytes.find("HTTP/1.1 ", at)) != std::string::npos; ++at)
    count += isdigit(bytes[at + 9]) != 0;
  return count;
}

class FramingTest : public ServerTest {
 protected:
  HttpOptions Quick() {
    HttpOptions options;
    options.limits.header_time = std::chrono::milliseconds(300);
    options.limits.body_grace = std::chrono::milliseconds(300);
    options.limits.idle_time = std::chrono::milliseconds(400);
    options.limits.reader_stall = std::chrono::milliseconds(500);
    return options;
  }
};

TEST_F(FramingTest, SmugglingAttemptGetsOneAnswerAndCloses) {
  StartServer();
  const auto cases = protocol::SmugglingCases();
  ASSERT_GE(cases.size(), 60u);
  for (const protocol::SmugglingCase& bad : cases) {
    RawClient client(port());
    client.Send(bad.bytes + Get("/livez"));
    const std::string answer = client.ReadAll(3000);
    EXPECT_EQ(CountResponses(answer), 1u) << bad.name << "\n" << answer;
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(bad.status))) << bad.name << "\n"
                                                                              << answer;
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n")) << bad.name;
    EXPECT_TRUE(client.closed()) << bad.name;
  }
  EXPECT_EQ(inference_.generations(), 0u) << "none of them reached the model";
}

// Regression: garbage in the same write as the request got no answer; in a second write it got 400.
TEST_F(FramingTest, GarbageBehindARequestIs400AndCloses) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  const std::string request = Post("/v1/chat/completions", kChatBody);
  for (const char* garbage : {"\x01 garbage that a longer Content-Length would have covered",
                              "GET / HTTP/1.1\r\n\r\n", "hello world\r\n\r\n"}) {
    RawClient client(port());
    client.Send(request + garbage + Get("/livez"));
    const std::string answer = client.ReadAll();
    EXPECT_EQ(CountResponses(answer), 2u) << garbage << "\n" << answer;
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 400")) << garbage;
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n")) << garbage;
    EXPECT_TRUE(client.closed()) << garbage;
  }
}

TEST_F(FramingTest, RequestsOnOneConnectionAreAnsweredInOrder) {
  StartServer();
  RawClient client(port());
  client.Send(Get("/version") + Get("/livez") + Get("/nothing") + "\r\n" + Get("/load"));
  EXPECT_EQ(client.Read().body, R"({"version":"1.2.3"})");
  EXPECT_EQ(client.Read().body, R"({"status":"ok"})");
  EXPECT_EQ(client.Read().status, 404);
  EXPECT_EQ(
      client.Read().body,
      R"({"server_load":5,"running":2,"waiting":3,"lanes":4,"max_num_seqs":4,"kv_blocks_used":5,"kv_blocks_total":6,"level":"green"})");
  EXPECT_FALSE(client.closed());
}

TEST_F(FramingTest, Http10ClosesUnlessAskedToStay) {
  StartServer();
  RawClient closing(port());
  closing.Send("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closing.Read().status, 200);
  EXPECT_TRUE(closing.WaitClosed());
  RawClient staying(port());
  staying.Send("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(staying.Read().Header("connection"), "keep-alive");
  staying.Send("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_EQ(staying.Read().status, 200);
}

TEST_F(FramingTest, AStreamToHttp10EndsWithItsConnection) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"a", "b"});
    return OkStatus();
  };
  StartServer();
  RawClient client(port());
  client.Send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(kChatStreamBody.size()) + "\r\n\r\n" + kChatStreamBody);
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("transfer-encoding"), "");
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n")) << response.body;
  EXPECT_TRUE(client.closed());
}

TEST_F(FramingTest, AChunkedBodyOfOneByteChunksIsRead) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  std::string body = R"({"model":"fake","messages":[{"role":"user","content":")" +
                     std::string(100'000, 'x') + R"("}]})";
  std::string chunks;
  for (const char c : body) {
    chunks += "1\r\n";
    chunks += c;
    chunks += "\r\n";
  }
  const auto start = std::chrono::steady_clock::now();
  const RawResponse response =
      Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
          "chunked\r\n\r\n" +
          chunks + "0\r\n\r\n");
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(std::get<api::ChatPrompt>(inference_.Generation(0)->request.prompt)
                .messages[0]
                .content.size(),
            100'000u);
}

// An empty chunked body in single bytes once ended the server by an assertion of the HTTP library.
TEST(MessageParser, ALastChunkMayComeByteByByte) {
  for (const std::string body : {"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "0;x=1\r\n\r\n",
                                 "00\r\n\r\n", "1\r\na\r\n0\r\nT: b\r\n\r\n"}) {
    const std::string request =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body;
    for (size_t piece = 1; piece <= request.size(); ++piece) {
      MessageParser parser(protocol::FramingLimits{});
      for (size_t at = 0; at < request.size() && parser.fault().ok(); at += piece) {
        parser.Feed(std::string_view(request).substr(at, piece));
      }
      if (!parser.fault().ok()) continue;  // trailers and extensions may be refused, not survived
      ASSERT_TRUE(parser.done()) << body << " in pieces of " << piece;
      EXPECT_EQ(parser.Take().body.size(), body[0] == '3' ? 3u : body[0] == '1' ? 1u : 0u);
    }
  }
}

TEST_F(FramingTest, ExpectationsAreMetOrRefused) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  StartServer();
  const std::string head =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
      std::to_string(kChatBody.size());
  RawClient patient(port());
  patient.Send(head + "\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(patient.WaitFor("HTTP/1.1 100 Continue\r\n\r\n"));
  patient.Send(kChatBody);
  EXPECT_EQ(patient.Read().status, 200);

  RawClient wrong(port());
  wrong.Send(head + "\r\nExpect: 200-ok\r\n\r\n" + kChatBody);
  EXPECT_EQ(wrong.Read().status, 417);

  RawClient refused(port());  // an answer instead of 100, and no body wanted
  refused.Send(
      "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: "
      "100-continue\r\n\r\n");
  EXPECT_EQ(refused.Read().status, 404);
  EXPECT_TRUE(refused.WaitClosed());

  RawClient large(port());
  large.Send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\nExpect: "
      "100-continue\r\n\r\n");
  EXPECT_EQ(large.Read().status, 413);
}

TEST_F(FramingTest, ABodyAtTheLimitPassesAndOneByteMoreDoesNot) {
  StartServer();
  const std::string at_limit(8 << 20, ' ');
  const RawResponse blank = Ask(Post("/v1/chat/completions", at_limit));
  EXPECT_EQ(blank.status, 400) << "read, and found to be no JSON";
  EXPECT_EQ(CodeOf(blank), "invalid_json");
  RawClient client(port());
  client.Send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n");
  EXPECT_EQ(client.Read().status, 413);
}

TEST_F(FramingTest, ARefusedRequestWithASmallBodyKeepsItsConnection) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/nothing", "{}") + Get("/livez"));
  EXPECT_EQ(client.Read().status, 404);
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(FramingTest, ASlowHeaderIsAnsweredWith408) {
  StartServer(Quick());
  RawClient client(port());
  client.Send("GET /livez HTT");
  for (int i = 0; i < 3; ++i) {
    usleep(50'000);
    client.Send("P");  // trickling does not help
  }
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(CodeOf(response), "request_timeout");
  EXPECT_TRUE(client.WaitClosed());
}

TEST_F(FramingTest, ASlowBodyIsAnsweredWith408AndASteadyOneIsNot) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"ok"});
    return OkStatus();
  };
  HttpOptions options = Quick();
  options.limits.body_bytes_per_s = 20'000;
  StartServer(options);
  const std::string body = R"({"model":"fake","messages":[{"role":"user","content":")" +
                           std::string(16'000, 'x') + R"("}]})";
  const std::string request = Post("/v1/chat/completions", body);
  RawClient slow(port());
  slow.Send(std::string_view(request).substr(0, request.size() - 15'900));
  EXPECT_EQ(slow.Read().status, 408);
  EXPECT_TRUE(slow.WaitClosed());

  RawClient steady(port());  // 50 KB/s for 0.32 s, longer than the grace alone
  for (size_t at = 0; at < request.size(); at += 1000) {
    ASSERT_TRUE(steady.Send(std::string_view(request).substr(at, 1000)));
    usleep(20'000);
  }
  EXPECT_EQ(steady.Read().status, 200);
}

TEST_F(FramingTest, AnIdleConnectionIsClosedWithoutAWord) {
  StartServer(Quick());
  RawClient fresh(port()), used(port());
  used.Send(Get("/livez"));
  EXPECT_EQ(used.Read().status, 200);
  EXPECT_TRUE(fresh.WaitClosed());
  EXPECT_TRUE(used.WaitClosed());
  EXPECT_EQ(fresh.buffer() + used.buffer(), "");
}

TEST_F(FramingTest, ConnectionsAboveTheLimitWaitUntilOneCloses) {
  HttpOptions options;
  options.max_connections = 2;
  StartServer(options);
  auto first = std::make_unique<RawClient>(port());
  RawClient second(port()), third(port());
  first->Send(Get("/livez"));
  EXPECT_EQ(first->Read().status, 200);
  second.Send(Get("/livez"));
  EXPECT_EQ(second.Read().status, 200);
  third.Send(Get("/livez"));
  EXPECT_FALSE(third.Fill(200)) << "not accepted yet";
  first.reset();
  EXPECT_EQ(third.Read().status, 200);
}

}  // namespace
}  // namespace tutti::http::testing
