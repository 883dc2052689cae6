// Generations through the server: streaming, failures in every phase, clients that leave or stop
// reading, deadlines, keep-alive, drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <set>
#include <thread>

#include "sanitized.h"
#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StreamTest : public ServerTest {
 protected:
  static void RaiseFileLimit() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  // Each io thread once, as the engine does, however many streams it reads.
  void WakeAll(size_t generations) {
    std::set<Waker*> wakers;
    for (size_t k = 0; k < generations; ++k)
      wakers.insert(inference_.Generation(k)->stream->waker().get());
    for (Waker* waker : wakers) waker->Wake();
  }
  size_t Occurrences(const std::string& text, const std::string& what) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

TEST_F(StreamTest, AFailureBeforeTheFirstTokenIsAnOrdinaryHttpError) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  generation->Started(900);
  generation->End(
      InvalidArgument("context_length_exceeded", "900 tokens and none left").WithParam("messages"));
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.Header("content-type"), "application/json");
  EXPECT_THAT(
      response.body,
      HasSubstr(
          R"("param":"messages","code":"context_length_exceeded","n_prompt_tokens":900,"n_ctx":128)"));
  client.Send(Get("/livez"));
  EXPECT_EQ(client.Read().status, 200) << "the connection goes on";
}

// The answer was headed by the encoder, and judged by the length of its context, 64.
TEST_F(StreamTest, BesideAnEncoderAnAnswerWithoutANameIsOfTheModelThatGenerates) {
  inference_.PutFirst(MakeFakeEncoder("vectors", {}));
  int prompt_tokens = 10;
  inference_.on_generate = [&](const auto& generation) {
    generation->usage.prompt_tokens = prompt_tokens;
    if (prompt_tokens < 64) {
      generation->Answer({"yes"});
    } else {
      generation->End(InvalidArgument("context_length_exceeded", "numbers"));
    }
    return OkStatus();
  };
  StartServer();
  const std::string whole = R"({"prompt":"x","stream":false})";
  EXPECT_THAT(Ask(Post("/generate", whole)).body, HasSubstr(R"("model":"fake")"));
  prompt_tokens = 100;
  EXPECT_THAT(Ask(Post("/generate", whole)).body,
              AllOf(HasSubstr(R"("param":"max_tokens")"), HasSubstr(R"("n_ctx":128)")));
}

TEST_F(StreamTest, ARequestThatIsTooLongNamesWhatIsTooLong) {
  int prompt_tokens = 0;
  inference_.on_generate = [&](const auto& generation) {
    generation->usage.prompt_tokens = prompt_tokens;
    generation->End(InvalidArgument("context_length_exceeded", "numbers"));
    return OkStatus();
  };
  StartServer();
  prompt_tokens = 128;  // the context of the fake: no room for output
  EXPECT_THAT(
      Ask(Post("/v1/chat/completions", kChatBody)).body,
      HasSubstr(
          R"("param":"messages","code":"context_length_exceeded","n_prompt_tokens":128,"n_ctx":128)"));
  EXPECT_THAT(Ask(Post("/generate", R"({"prompt":"x"})")).body, HasSubstr(R"("param":"prompt")"));
  EXPECT_THAT(Ask(Post("/v1/completions", R"({"model":"fake","prompt":["a","b"]})")).body,
              HasSubstr(R"("param":"prompt[0]")"));
  prompt_tokens = 100;
  EXPECT_THAT(Ask(Post("/v1/completions", R"({"model":"fake","prompt":"x","max_tokens":29})")).body,
              HasSubstr(R"("param":"max_tokens")"));
}

TEST_F(StreamTest, AFailureMidStreamIsAnErrorEventThenDone) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  generation->Started(3);
  generation->Token("partial");
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("partial"));
  generation->End(Unavailable("engine_stalled", "the engine restarts"));
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(
      response.body.ends_with("data: {\"error\":{\"message\":\"the engine "
                              "restarts\",\"type\":\"server_error\",\"param\":null,\"code\":"
                              "\"engine_stalled\"}}\n\ndata: [DONE]\n\n"))
      << response.body;
  EXPECT_THAT(response.body, Not(HasSubstr("\"finish_reason\":\"")));
  EXPECT_TRUE(response.complete);
}

TEST_F(StreamTest, GenerateStreamsNamedEvents) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"a", "\xc3\xa9"});
    return OkStatus();
  };
  StartServer();
  const RawResponse response = Ask(Post("/generate", R"({"prompt":"x"})"));
  EXPECT_TRUE(
      response.body.starts_with("event: data\ndata: {\"text\":\"a\"}\n\nevent: data\ndata: "
                                "{\"text\":\"\xc3\xa9\"}\n\nevent: done\ndata: {\"id\":\"gen-"))
      << response.body;
}

TEST_F(StreamTest, InfillAnswersAsLlamaCppDoes) {
  inference_.on_generate = [](const auto& generation) {
    const auto& prompt = std::get<api::TextPrompt>(generation->request.prompt);
    if (prompt.suffix != "b") {
      return InvalidArgument("unsupported_parameter", "no such tokens").WithParam("suffix");
    }
    generation->Answer({"x", "y"});
    return OkStatus();
  };
  StartServer();
  const RawResponse whole = Ask(Post(
      "/infill", R"({"input_prefix":"a","input_suffix":"b","samplers":["top_k"],"n_predict":9})"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_THAT(whole.body, HasSubstr(R"("content":"xy","stop":true,"model":"fake")"));
  EXPECT_EQ(whole.Header("x-tutti-ignored"), "samplers");
  const RawResponse stream =
      Ask(Post("/infill", R"({"input_prefix":"a","input_suffix":"b","stream":true})"));
  EXPECT_THAT(stream.body, HasSubstr(R"(data: {"index":0,"content":"x","stop":false,)"));
  EXPECT_THAT(stream.body, HasSubstr(R"(data: {"index":0,"content":"","stop":true,)"));
  EXPECT_THAT(stream.body, Not(HasSubstr("[DONE]")));
  EXPECT_THAT(Ask(Post("/infill", R"({"input_prefix":"a","input_suffix":""})")).body,
              HasSubstr(R"("param":"input_suffix","code":"unsupported_parameter")"));
  EXPECT_THAT(Ask(Post("/v1/completions", R"({"model":"fake","prompt":"a","suffix":"c"})")).body,
              HasSubstr(R"("param":"suffix","code":"unsupported_parameter")"));
}

constexpr char kOllamaBody[] =
    R"({"model":"fake:latest","messages":[{"role":"user","content":"x"}],"options":{"num_predict":29}})";

TEST_F(StreamTest, OllamaStreamsLinesAndEndsAFailureWithOne) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/api/chat", kOllamaBody));
  const auto generation = inference_.Generation(0);
  EXPECT_EQ(generation->request.model, "fake");
  generation->Started(3);
  generation->Token("partial");
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("partial"));
  generation->End(Unavailable("engine_stalled", "the engine restarts"));
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("content-type"), "application/x-ndjson");
  EXPECT_THAT(response.body, HasSubstr(R"({"model":"fake:latest","created_at":")"));
  EXPECT_TRUE(response.body.ends_with("\"done\":false}\n{\"error\":\"the engine restarts\"}\n"))
      << response.body;
  EXPECT_TRUE(response.complete);
}

TEST_F(StreamTest, OllamaErrorsNameTheFieldsOfTheClient) {
  int prompt_tokens = 128;
  inference_.on_generate = [&](const auto& generation) {
    generation->usage.prompt_tokens = prompt_tokens;
    generation->End(InvalidArgument("context_length_exceeded", "numbers"));
    return OkStatus();
  };
  StartServer();
  const RawResponse refused = Ask(Post("/api/chat", kOllamaBody));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, R"({"error":"messages: numbers"})");
  EXPECT_EQ(refused.Header("x-tutti-error-code"), "context_length_exceeded");
  EXPECT_EQ(Ask(Post("/api/generate", R"({"model":"fake","prompt":"x"})")).body,
            R"({"error":"prompt: numbers"})");
  prompt_tokens = 100;
  EXPECT_EQ(Ask(Post("/api/chat", kOllamaBody)).body,
            R"({"error":"options.num_predict: numbers"})");
  EXPECT_EQ(Ask(Post("/api/nothing", "{}")).body.substr(0, 10), R"({"error":")");
}

TEST_F(StreamTest, SeveralPromptsRunTogetherAndComeBackInOrder) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/completions", R"({"model":"fake","prompt":["a","b","c"],"n":2})"));
  for (size_t k : {2, 0, 1}) inference_.Generation(k)->AppendAnswer({std::to_string(k)});
  inference_.Generation(0)->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  for (int index = 0; index < 6; ++index) {
    EXPECT_THAT(response.body, HasSubstr("{\"index\":" + std::to_string(index) + ",\"text\":\"" +
                                         std::to_string(index / 2) + "\""));
  }
  EXPECT_THAT(response.body, HasSubstr(R"("prompt_tokens":9,"completion_tokens":6)"));
}

TEST_F(StreamTest, OnePromptThatIsRefusedRefusesAllAndCancelsTheOthers) {
  inference_.on_generate = [](const auto& generation) {
    const bool third = std::get<api::TextPrompt>(generation->request.prompt).text == "c";
    return third ? Unavailable("queue_full", "256 requests wait")
                       .WithRetryAfter(std::chrono::milliseconds(1500))
                 : OkStatus();
  };
  StartServer();
  const RawResponse response =
      Ask(Post("/v1/completions", R"({"model":"fake","prompt":["a","b","c"]})"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(CodeOf(response), "queue_full");
  EXPECT_EQ(response.Header("retry-after"), "2");
  EXPECT_EQ(response.Header("retry-after-ms"), "1500");
  EXPECT_TRUE(Eventually(
      [&] { return inference_.Generation(0)->cancelled && inference_.Generation(1)->cancelled; }));
}

TEST_F(StreamTest, EchoRepeatsThePromptAlsoFromTokenIds) {
  inference_.on_generate = [](const auto& generation) {
    generation->Answer({"!"});
    return OkStatus();
  };
  StartServer();
  EXPECT_THAT(Ask(Post("/v1/completions", R"({"model":"fake","prompt":"Hi","echo":true})")).body,
              HasSubstr(R"("text":"Hi!")"));
  EXPECT_THAT(
      Ask(Post("/v1/completions", R"({"model":"fake","prompt":[72,105],"echo":true})")).body,
      HasSubstr(R"("text":"Hi!")"));
}

// --- clients that leave ---

TEST_F(StreamTest, LeavingCancelsInEveryPhaseStreamedOrNot) {
  StartServer();
  size_t k = 0;
  for (const bool stream : {false, true}) {
    for (const bool reset : {false, true}) {
      for (int phase = 0; phase < 3; ++phase) {  // queued; prompt known; tokens flow
        auto client = std::make_unique<RawClient>(port());
        client->Send(Post("/v1/chat/completions", stream ? kChatStreamBody : kChatBody));
        const auto generation = inference_.Generation(k++);
        ASSERT_NE(generation, nullptr);
        if (phase >= 1) generation->Started(3);
        if (phase >= 2) generation->Token("x");
        generation->Wake();
        const bool shown = phase >= 2 && stream;
        EXPECT_TRUE(!shown || client->WaitFor("\"x\""));
        if (reset) {
          client->Reset();
        } else {
          client->Close();
        }
        EXPECT_TRUE(Eventually([&] { return generation->cancelled.load(); }, 1000))
            << stream << reset << phase;
      }
    }
  }
  EXPECT_TRUE(Eventually(
      [&] { return server_->active_requests() == 0 && server_->open_connections() == 0; }));
  EXPECT_EQ(Occurrences(lines_->Joined(), " status=499 "), 12u);
}

TEST_F(StreamTest, HalfClosedClientGetsItsWholeAnswer) {
  StartServer();
  size_t k = 0;
  for (const bool stream : {false, true}) {
    for (const bool begun : {false, true}) {
      RawClient client(port());
      client.Send(Post("/v1/chat/completions", stream ? kChatStreamBody : kChatBody));
      const auto generation = inference_.Generation(k++);
      ASSERT_NE(generation, nullptr);
      if (begun) {
        generation->Started(3);
        generation->Token("one ");
        generation->Wake();
        ASSERT_TRUE(!stream || client.WaitFor("one "));
      }
      client.ShutdownSend();
      // The server has noticed the half-close, and probes whether the client has left.
      ASSERT_TRUE(client.WaitFor(stream && begun ? ": ping\n\n" : "HTTP/1.1 100 Continue\r\n\r\n"));
      if (!begun) {
        generation->Started(3);
        generation->Token("one ");
      }
      generation->Token("two");
      generation->ChoiceEnd();
      generation->End();
      generation->Wake();
      const RawResponse response = client.Read();
      EXPECT_EQ(response.status, 200);
      EXPECT_TRUE(response.complete) << stream << begun;
      EXPECT_THAT(response.body, HasSubstr(stream ? R"("content":"two")" : "one two"));
      EXPECT_TRUE(!stream || response.body.ends_with("data: [DONE]\n\n"));
      EXPECT_FALSE(generation->cancelled) << stream << begun;
      EXPECT_TRUE(client.WaitClosed());
    }
  }
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 0; }));
  EXPECT_EQ(Occurrences(lines_->Joined(), " status=200 "), 4u);
}

TEST_F(StreamTest, AnswersAllWholeRequestsOfHalfClosedClient) {
  StartServer();
  RawClient client(port());
  client.Send(Get("/version") + Post("/v1/chat/completions", kChatBody) + Get("/livez") +
              "GET /version HTTP/1.1\r\nHo");
  client.ShutdownSend();
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Answer({"hello"});
  generation->Wake();
  EXPECT_THAT(client.Read().body, HasSubstr("version"));
  EXPECT_THAT(client.Read().body, HasSubstr("hello"));
  EXPECT_THAT(client.Read().body, HasSubstr("ok"));
  EXPECT_EQ(client.ReadAll(), "") << "what is no whole request has no answer";
  EXPECT_TRUE(client.closed());
}

TEST_F(StreamTest, CancelsWhenHalfClosedClientLeaves) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatBody));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  client.ShutdownSend();
  ASSERT_TRUE(client.WaitFor("100 Continue\r\n\r\n"));
  EXPECT_FALSE(generation->cancelled);
  client.Close();
  EXPECT_TRUE(Eventually([&] { return generation->cancelled.load(); }));
}

TEST_F(StreamTest, AClientOfHttp10ThatClosesItsSendingSideHasLeft) {
  StartServer();
  RawClient client(port());
  client.Send("POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n" +
              ("Content-Length: " + std::to_string(std::string(kChatBody).size())) + "\r\n\r\n" +
              std::string(kChatBody));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  client.ShutdownSend();
  EXPECT_TRUE(Eventually([&] { return generation->cancelled.load(); }));
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(StreamTest, AClientThatLeavesWhileItsBodyIsParsedElsewhereIsForgotten) {
  StartServer();
  const std::string body = R"({"model":"fake","messages":[{"role":"user","content":")" +
                           std::string(4 << 20, 'x') + R"("}]})";
  for (int i = 0; i < 5; ++i) {
    RawClient client(port());
    client.Send(Post("/v1/chat/completions", body));
  }
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() == 0; }));
  for (size_t k = 0; k < inference_.generations(); ++k) {
    EXPECT_TRUE(Eventually([&] { return inference_.Generation(k)->cancelled.load(); }));
  }
  EXPECT_EQ(Ask(Get("/livez")).status, 200);
}

TEST_F(StreamTest, ThousandsOfCancelsLeaveNothingBehindAndMixNoAnswers) {
  inference_.on_generate = [](const auto& generation) {
    const std::string& id = generation->request.request_id;
    generation->Answer({"for-" + id});
    return OkStatus();
  };
  StartServer();
  for (int i = 0; i < 2000; ++i) {
    RawClient client(port());
    const std::string id = "id-" + std::to_string(i);
    client.Send(Post("/v1/chat/completions", kChatBody, "X-Request-Id: " + id + "\r\n"));
    if (i % 2 == 0) continue;  // gone between sending and receiving
    const RawResponse response = client.Read();
    ASSERT_THAT(response.body, HasSubstr("\"content\":\"for-" + id + "\""));
    ASSERT_EQ(response.Header("x-request-id"), id);
  }
  EXPECT_TRUE(Eventually(
      [&] { return server_->open_connections() == 0 && server_->active_requests() == 0; }));
}

// --- clients that stop reading ---

TEST_F(StreamTest, AReaderThatStopsHoldsBackItsStreamAndIsDroppedOthersGoOn) {
  HttpOptions options;
  options.limits.reader_stall = std::chrono::milliseconds(700);
  options.send_buffer_bytes = 4096;
  StartServer(options);
  RawClient stopped(port(), 4096), reading(port());
  stopped.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto slow = inference_.Generation(0);
  reading.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto fast = inference_.Generation(1);
  const std::string text(200, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5000; ++i) slow->Token(text);
  for (int i = 0; i < 100; ++i) fast->Token(text);
  fast->ChoiceEnd();
  fast->End();
  slow->Wake();
  fast->Wake();
  EXPECT_TRUE(reading.Read().body.ends_with("data: [DONE]\n\n"));
  // The amount taken from the log is bounded: the rest still counts as unread, which pauses the
  // sequence.
  EXPECT_GT(slow->stream->unread_bytes(), 500'000u);
  EXPECT_FALSE(slow->cancelled);
  EXPECT_TRUE(Eventually([&] { return slow->cancelled.load(); }, 3000));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took, std::chrono::milliseconds(600));
  EXPECT_LT(took, std::chrono::seconds(10));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr(R"(tutti_slow_reader_cancels_total{door="http",server="http"} 1)"));
}

size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// The fake does what the engine does: it writes until 48 KiB are unread. Frames and log are then
// bounded each.
TEST_F(StreamTest, AThousandReadersThatStopCostTheirCapsAndAreAllDropped) {
  constexpr size_t kReaders = 1000, kCap = 48 << 10;
  RaiseFileLimit();
  HttpOptions options;
  options.limits.reader_stall = std::chrono::seconds(3);
  options.send_buffer_bytes = 4096;
  StartServer(options);
  std::vector<std::unique_ptr<RawClient>> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<RawClient>(port(), 4096));
    readers.back()->Send(Post("/v1/chat/completions", kChatStreamBody));
  }
  ASSERT_NE(inference_.Generation(kReaders - 1), nullptr);
  const size_t before = ResidentBytes();
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t k = 0; k < kReaders; ++k) {
      const auto generation = inference_.Generation(k);
      for (int i = 0; i < 300 && generation->stream->unread_bytes() < kCap; ++i, grew = true)
        generation->Token(" tok");
    }
    WakeAll(kReaders);
    usleep(20'000);
  }
  const size_t grown = ResidentBytes() - before;
  if (!support::Sanitized()) {
    EXPECT_LT(grown, kReaders * (kCap + (64 << 10)))
        << "frames that wait, the log behind them, and what holds both";
  }
  RecordProperty("resident_mib", static_cast<int>(grown >> 20));
  RawClient other(port());
  other.Send(Get("/livez"));
  EXPECT_EQ(other.Read().status, 200);
  EXPECT_TRUE(Eventually([&] { return server_->open_connections() <= 1; }, 15'000));
  for (size_t k = 0; k < kReaders; ++k) ASSERT_TRUE(inference_.Generation(k)->cancelled) << k;
}

TEST_F(StreamTest, AReaderThatIsOnlySlowGetsEverything) {
  HttpOptions options;
  options.limits.reader_stall = std::chrono::seconds(2);
  options.send_buffer_bytes = 4096;
  StartServer(options);
  RawClient client(port(), 4096);
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  for (int i = 0; i < 400; ++i) generation->Token("token" + std::to_string(i) + " ");
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  std::string all;
  for (int i = 0; i < 22; ++i) {  // pauses shorter than the stall, longer in sum
    usleep(100'000);
    char piece[2000];
    const ssize_t got = recv(client.fd(), piece, sizeof piece, 0);
    ASSERT_GT(got, 0);
    all.append(piece, static_cast<size_t>(got));
  }
  client.buffer() = all;
  const RawResponse response = client.Read();
  EXPECT_TRUE(response.complete);
  EXPECT_THAT(response.body, HasSubstr("token399 "));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

// --- time ---

TEST_F(StreamTest, SilenceIsBridgedByCommentsAndNeverBetweenTokens) {
  HttpOptions options;
  options.keepalive = std::chrono::milliseconds(500);
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  ASSERT_TRUE(client.WaitFor(": ping\n\n", 10'000))
      << "the prefill is long: the status line goes out with the first ping";
  ASSERT_TRUE(
      Eventually([&] { return client.Fill(1000) && Occurrences(client.buffer(), ": ping") >= 3; }));
  const size_t pings = Occurrences(client.buffer(), ": ping");
  generation->Started(3);
  for (int i = 0; i < 24; ++i) {  // more than twice the silence that is bridged
    generation->Token("t");
    generation->Wake();
    usleep(50'000);
  }
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_LE(Occurrences(response.body, ": ping"), pings + 1);
  EXPECT_THAT(response.body, Not(HasSubstr("id:")));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(StreamTest, AFailureAfterAPingIsAnErrorEvent) {
  HttpOptions options;
  options.keepalive = std::chrono::milliseconds(50);
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatStreamBody));
  ASSERT_TRUE(client.WaitFor(": ping\n\n"));
  inference_.Generation(0)->End(
      Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "too late"));
  inference_.Generation(0)->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("\"code\":\"deadline_exceeded\""));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(StreamTest, AWholeAnswerIsNeverPinged) {
  HttpOptions options;
  options.keepalive = std::chrono::milliseconds(30);
  StartServer(options);
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatBody));
  EXPECT_FALSE(client.Fill(200)) << client.buffer();
  inference_.Generation(0)->Answer({"x"});
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(StreamTest, DeadlinesComeFromHeaderAndBodyTheEarlierCounts) {
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto deadline_in = [&](const std::string& field, const std::string& body) {
    const TimePoint now = clock_.Now();
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(Post("/v1/chat/completions", body, field));
    const TimePoint deadline = inference_.Generation(clients.size() - 1)->request.deadline;
    return deadline == TimePoint::max() ? -1.0 : ToSeconds(deadline - now);
  };
  const std::string body_5s =
      R"({"model":"fake","messages":[{"role":"user","content":"hi"}],"deadline_ms":5000})";
  EXPECT_EQ(deadline_in("", kChatBody), -1.0);
  EXPECT_NEAR(deadline_in("X-Request-Timeout-Ms: 2000\r\n", kChatBody), 2.0, 0.5);
  EXPECT_NEAR(deadline_in("X-Request-Timeout-Ms: 2000\r\n", body_5s), 2.0, 0.5);
  EXPECT_NEAR(deadline_in("X-Request-Timeout-Ms: 9000\r\n", body_5s), 5.0, 0.5);
  EXPECT_NEAR(deadline_in("X-Request-Timeout-Ms: 999999999999\r\n", kChatBody), 86400, 1)
      << "capped";
  for (const char* bad : {"0", "-1", "1.5", "1e3", "abc", "9999999999999", ""}) {
    const RawResponse response = Ask(Post("/v1/chat/completions", kChatBody,
                                          "X-Request-Timeout-Ms: " + std::string(bad) + "\r\n"));
    EXPECT_EQ(response.status, 400) << bad;
    EXPECT_THAT(response.body, HasSubstr("X-Request-Timeout-Ms")) << bad;
  }
}

TEST_F(StreamTest, TheTimeOfARequestIsSplitIntoStagesOnRequest) {
  inference_.on_generate = [](const auto& generation) {
    generation->timings.queue = std::chrono::milliseconds(3);
    generation->timings.prefill = std::chrono::milliseconds(20);
    generation->Answer({"x"});
    return OkStatus();
  };
  StartServer();
  const RawResponse response =
      Ask(Post("/v1/chat/completions", kChatBody, "x-tutti-timings: 1\r\n"));
  EXPECT_THAT(response.Header("server-timing"),
              HasSubstr("queue;dur=3.000, prefill;dur=20.000, decode;dur=0.000"));
  EXPECT_EQ(Ask(Post("/v1/chat/completions", kChatBody)).Header("server-timing"), "");
}

// --- many ---

TEST_F(StreamTest, OneThousandStreamsAreServedAtOnceAndHealthStaysQuick) {
  constexpr size_t kStreams = 1000;
  RaiseFileLimit();
  HttpOptions options;
  options.max_connections = 1100;
  StartServer(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    ASSERT_TRUE(clients.back()->connected());
    clients.back()->Send(Post("/v1/chat/completions", kChatStreamBody,
                              "X-Request-Id: s-" + std::to_string(i) + "\r\n"));
  }
  ASSERT_NE(inference_.Generation(kStreams - 1), nullptr);
  EXPECT_THAT(Ask(Get("/metrics")).body, HasSubstr("tutti_requests_in_flight{op=\"chat\"} 1000"));
  for (int step = 0; step < 5; ++step) {
    for (size_t k = 0; k < kStreams; ++k) {
      const auto generation = inference_.Generation(k);
      generation->Token(generation->request.request_id + "/" + std::to_string(step) + ";");
    }
    WakeAll(kStreams);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Ask(Get("/livez")).status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }
  for (size_t k = 0; k < kStreams; ++k) {
    const auto generation = inference_.Generation(k);
    generation->ChoiceEnd();
    generation->End();
    generation->Wake();
  }
  for (size_t i = 0; i < kStreams; ++i) {
    const RawResponse response = clients[i]->Read();
    ASSERT_TRUE(response.complete);
    const std::string own = "s-" + std::to_string(i) + "/";
    for (int step = 0; step < 5; ++step)
      ASSERT_THAT(response.body, HasSubstr("\"content\":\"" + own + std::to_string(step) + ";\""));
    ASSERT_EQ(Occurrences(response.body, "\"content\":\""), 5u);
  }
}

// --- the end ---

TEST_F(StreamTest, DrainLetsRequestsFinishAndClosesTheirConnections) {
  StartServer();
  RawClient idle(port()), busy(port());
  idle.Send(Get("/livez"));
  EXPECT_EQ(idle.Read().status, 200);
  busy.Send(Post("/v1/chat/completions", kChatStreamBody));
  const auto generation = inference_.Generation(0);
  bool drained = false;
  std::thread drain([&] { drained = server_->Drain(std::chrono::seconds(5)); });
  EXPECT_TRUE(idle.WaitClosed());
  generation->Answer({"last", " words"});
  const RawResponse response = busy.Read();
  EXPECT_THAT(response.body, HasSubstr("last"));
  EXPECT_EQ(response.Header("connection"), "close");
  busy.Close();
  drain.join();
  EXPECT_TRUE(drained);
  EXPECT_FALSE(generation->cancelled);
  RawClient late(port());
  late.Send(Get("/livez"));
  EXPECT_FALSE(late.Fill(200)) << "no longer accepting";
}

TEST_F(StreamTest, StopAfterAFailedDrainCancelsWhatStillRuns) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/v1/chat/completions", kChatBody));
  const auto generation = inference_.Generation(0);
  EXPECT_FALSE(server_->Drain(std::chrono::milliseconds(100)));
  EXPECT_FALSE(generation->cancelled);
  server_->Stop();
  EXPECT_TRUE(generation->cancelled);
  EXPECT_EQ(server_->active_requests(), 0);
  generation->Wake();  // the engine may still do so
}

}  // namespace
}  // namespace tutti::http::testing
