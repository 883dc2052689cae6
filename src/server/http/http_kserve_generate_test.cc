// KServe v2 over HTTP: generate and generate_stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "server/http/testing/kserve_fixture.h"

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace json = boost::json;

constexpr const char* kGenerate = "/v2/models/chat/generate";
constexpr const char* kStream = "/v2/models/chat/generate_stream";

class KserveGenerateTest : public KserveServerTest {
 protected:
  void AnswerAtOnce(const std::vector<std::string>& tokens) {
    models_.on_generate = [tokens](const auto& generation) {
      generation->Answer(tokens);
      return OkStatus();
    };
  }
  // The objects of a stream's events; every line must be one, or blank, or a comment.
  static std::vector<json::value> Events(const std::string& body) {
    std::vector<json::value> events;
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find('\n', at);
      const std::string line = body.substr(at, end - at);
      at = end == std::string::npos ? body.size() : end + 1;
      if (line.empty() || line.starts_with(":")) continue;
      EXPECT_TRUE(line.starts_with("data: ")) << line;
      events.push_back(json::parse(line.substr(6)));
    }
    return events;
  }
  static std::string Joined(const std::vector<json::value>& events) {
    std::string text;
    for (const json::value& event : events)
      text += std::string(event.at("text_output").as_string().c_str());
    return text;
  }
};

TEST_F(KserveGenerateTest, OneObjectInAndOneOut) {
  AnswerAtOnce({"Hello", " you"});
  StartServer();
  const json::value answer = GoodJson(Post(
      kGenerate, R"({"id":"7","text_input":"Hi","parameters":{"max_tokens":5,"temperature":0},)"
                 R"("exclude_input_in_output":true})"));
  EXPECT_EQ(answer, json::parse(R"({"id":"7","model_name":"chat","model_version":"1",)"
                                R"("text_output":"Hello you","finish_reason":"stop"})"));
  const api::GenerateRequest& request = models_.Generation(0)->request;
  EXPECT_EQ(std::get<api::TextPrompt>(request.prompt).text, "Hi");
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(GoodJson(Post(kGenerate, R"({"text_input":"Hi"})")).at("text_output").as_string(),
            "HiHello you")
      << "as Triton's vLLM backend has it";
  EXPECT_EQ(GoodJson(Post("/v2/models/chat/versions/1/generate",
                          R"({"text_input":["Hi"],"max_tokens":2,"n":2,"parameters":null})"))
                .at("finish_reason"),
            json::parse(R"(["stop","stop"])"))
      << "several elements are a list";
  EXPECT_EQ(models_.Generation(2)->request.sampling.max_tokens, 2)
      << "parameters may stand outside";
}

// Regression: "max_token" was passed on as a parameter of the model, so the answer had no limit.
TEST_F(KserveGenerateTest, MisspeltParametersAreToldOfOrInStrictModeRefused) {
  AnswerAtOnce({"Hello"});
  StartServer();
  const std::string misspelt =
      R"({"text_input":"Hi","max_token":5,"parameters":{"temperature":0,"topp":1},)"
      R"("sampling_parameters":"{\"sede\":1}"})";
  for (const char* const path : {kGenerate, kStream}) {
    const RawResponse told = Ask(Post(path, misspelt));
    EXPECT_EQ(told.status, 200) << told.body;
    EXPECT_EQ(told.Header("x-tutti-ignored"), "max_token, topp, sede") << path;
  }
  EXPECT_EQ(Ask(Post(kGenerate, R"({"text_input":"Hi","max_tokens":5})")).Header("x-tutti-ignored"),
            "");
  server_->Stop();
  HttpOptions strict;
  strict.strict = true;
  StartServer(strict);
  EXPECT_THAT(ErrorOf(Post(kGenerate, misspelt)), StartsWith("400 "));
  EXPECT_THAT(ErrorOf(Post(kGenerate, misspelt)), HasSubstr("max_token"));
}

TEST_F(KserveGenerateTest, AStreamIsEventsOfTheSameForm) {
  StartServer();
  RawClient client(port());
  client.Send(Post(kStream, R"({"id":"7","text_input":"Hi","parameters":{"max_tokens":5}})"));
  const auto generation = models_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Started();
  generation->Token("Hel");
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("\"Hel\"")) << "before the rest is there";
  generation->Token("lo\n");
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("content-type"), "text/event-stream; charset=utf-8");
  const std::vector<json::value> events = Events(response.body);
  EXPECT_EQ(Joined(events), "Hello\n");
  EXPECT_EQ(events.at(0).at("id").as_string(), "7");
  EXPECT_EQ(events.at(0).at("model_name").as_string(), "chat");
  EXPECT_EQ(events.at(0).at("finish_reason").as_string(), "");
  EXPECT_EQ(events.back().at("finish_reason").as_string(), "stop");
}

TEST_F(KserveGenerateTest, WithoutStreamingTheStreamHasOneEvent) {
  AnswerAtOnce({"a", "b"});
  StartServer();
  const RawResponse response =
      Ask(Post(kStream, R"({"text_input":"Hi","stream":false,"exclude_input_in_output":true})"));
  const std::vector<json::value> events = Events(response.body);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(Joined(events), "ab");
}

TEST_F(KserveGenerateTest, AFailureBeforeTheFirstEventIsAStatusAndLaterAnEvent) {
  StartServer();
  {
    RawClient client(port());
    client.Send(Post(kStream, R"({"text_input":"Hi"})"));
    ASSERT_NE(models_.Generation(0), nullptr);
    models_.Generation(0)->End(InvalidArgument("context_length_exceeded", "too long"));
    models_.Generation(0)->Wake();
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.body, R"({"error":"too long"})");
  }
  RawClient client(port());
  client.Send(Post(kStream, R"({"text_input":"Hi"})"));
  const auto generation = models_.Generation(1);
  ASSERT_NE(generation, nullptr);
  generation->Started();
  generation->Token("some");
  generation->Wake();
  ASSERT_TRUE(client.WaitFor("some"));
  generation->End(Internal("secret"));
  generation->Wake();
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(Events(response.body).back(),
            json::parse(R"({"error":"the server failed to answer this request"})"));
}

TEST_F(KserveGenerateTest, SilenceIsFilledWithComments) {
  HttpOptions options;
  options.keepalive = std::chrono::milliseconds(20);
  StartServer(options);
  RawClient client(port());
  client.Send(Post(kStream, R"({"text_input":"Hi"})"));
  ASSERT_NE(models_.Generation(0), nullptr);
  EXPECT_TRUE(client.WaitFor(": ping"));
  models_.Generation(0)->Answer({"late"});
  EXPECT_EQ(Joined(Events(client.Read().body)), "late");
}

TEST_F(KserveGenerateTest, LeavingCancels) {
  StartServer();
  for (const char* path : {kGenerate, kStream}) {
    const size_t k = models_.generations();
    {
      RawClient client(port());
      client.Send(Post(path, R"({"text_input":"Hi"})"));
      ASSERT_NE(models_.Generation(k), nullptr);
    }
    EXPECT_TRUE(Eventually([&] { return models_.Generation(k)->cancelled.load(); })) << path;
  }
}

TEST_F(KserveGenerateTest, WhatIsDueLaterComesLaterAndInOrder) {
  StartServer();
  const auto begin = std::chrono::steady_clock::now();
  const RawResponse response = Ask(Post("/v2/models/repeat_int32/generate_stream",
                                        R"({"IN":[4,5,6],"DELAY":[10,10,10],"WAIT":10})"));
  EXPECT_EQ(response.status, 200) << response.body;
  std::vector<int64_t> numbers;
  for (const json::value& event : Events(response.body))
    numbers.push_back(event.at("OUT").as_int64());
  EXPECT_THAT(numbers, ElementsAre(4, 5, 6));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
  EXPECT_THAT(
      ErrorOf(Post("/v2/models/repeat_int32/generate", R"({"IN":[4,5],"DELAY":[1,1],"WAIT":1})")),
      StartsWith("400 generate is for one response, and model 'repeat_int32'"));
}

TEST_F(KserveGenerateTest, ASlowReaderHoldsUpItsOwnStreamOnly) {
  HttpOptions options;
  options.limits.unsent_bytes = 4096;
  options.send_buffer_bytes = 4096;
  StartServer(options);
  RawClient slow(port(), 4096);
  slow.Send(Post(kStream, R"({"text_input":"Hi"})"));
  const auto generation = models_.Generation(0);
  ASSERT_NE(generation, nullptr);
  generation->Started();
  const std::string piece(1000, 'x');
  size_t given = 0;
  // The log stops growing while it is not read (48 KiB), long before 4 MB.
  while (given < 4'000'000 && generation->stream->unread_bytes() < 48 << 10) {
    generation->Token(piece);
    given += piece.size();
    generation->Wake();
    usleep(200);
  }
  EXPECT_LT(given, 1'000'000u);
  generation->ChoiceEnd();
  generation->End();
  generation->Wake();
  std::string joined = Joined(Events(slow.Read().body));
  EXPECT_EQ(joined.size(), given) << "nothing is lost";
}

TEST_F(KserveGenerateTest, EncodersAnswerToo) {
  StartServer();
  const json::value answer =
      GoodJson(Post("/v2/models/minilm/generate", R"({"text":"ab","normalize":false})"));
  EXPECT_EQ(answer.at("embedding"), json::parse("[2.0,195.0,97.0,0.5]"));
}

TEST_F(KserveGenerateTest, WhatIsNoRequestIsRefused) {
  StartServer();
  const struct {
    const char* body;
    const char* text;
  } kCases[] = {
      {"", "400 the body ends inside a JSON value"},
      {"[]", "400 the body must be a JSON object"},
      {"{}", "400 expected number of inputs between 1 and 4"},
      {R"({"text_input":7})", "400 'data' of input 'text_input' holds a value that is no BYTES"},
      {R"({"text_input":{}})", "400 'data' of input 'text_input' holds a value that is no BYTES"},
      {R"({"text_input":["a","b"]})", "400 unexpected shape for input 'text_input'"},
      {R"({"text_input":[["a"],"b"]})", "400 'data' of input 'text_input' is nested otherwise"},
      {R"({"text_input":"a","stream":"yes"})", "400 'data' of input 'stream' holds a value"},
      {R"({"text_input":"a","parameters":{"text_input":"b"}})",
       "400 input 'text_input' is given twice"},
      {R"({"text_input":"a","parameters":[]})", "400 'parameters' must be an object"},
      {R"({"text_input":"a","id":1})", "400 'id' must be a string"},
      {R"({"text_input":"a","max_tokens":[1]})", "400 invalid value type for 'max_tokens'"},
      {R"({"text_input":"a","stop":["x"]})", "400 invalid value type for 'stop'"},
      {R"({"text_input":"a","max_tokens":0})", "400 "},
      {R"({"text_input":"a","sampling_parameters":"{"})", "400 "},
      {R"({"text_input":"a","triton_x":1})", "400 parameter keys starting with 'triton_'"},
  };
  for (const auto& each : kCases) {
    EXPECT_THAT(ErrorOf(Post(kGenerate, each.body)), StartsWith(each.text)) << each.body;
    EXPECT_THAT(ErrorOf(Post(kStream, each.body)), StartsWith("400 ")) << each.body;
  }
  EXPECT_EQ(models_.generations(), 0u);
  EXPECT_EQ(ErrorOf(Post("/v2/models/x/generate", R"({"text_input":"a"})")),
            "404 Request for unknown model: 'x' is not found");
  EXPECT_EQ(ErrorOf(Post("/v2/models/x/generate_stream", R"({"text_input":"a"})")),
            "404 Request for unknown model: 'x' is not found");
}

}  // namespace
}  // namespace tutti::http
