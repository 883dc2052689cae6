#include "protocol/ollama/response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <chrono>

#include "base/ascii.h"
#include "protocol/ollama/models.h"

namespace tutti::protocol::ollama {
namespace {

using ::testing::ElementsAre;
using Kind = api::StreamEvent::Kind;

constexpr std::string_view kHead = R"({"model":"m:latest","created_at":"1970-01-01T00:01:00Z",)";
constexpr std::string_view kEnd =
    R"("total_duration":10000000,"load_duration":0,"prompt_eval_count":5,)"
    R"("prompt_eval_duration":3000000,"eval_count":2,"eval_duration":4000000})";

api::StreamEvent Token(std::string text, std::string reasoning = "") {
  api::StreamEvent event;
  event.text = std::move(text);
  event.reasoning = std::move(reasoning);
  return event;
}
api::StreamEvent Call(api::ToolCallDelta delta) {
  api::StreamEvent event;
  event.tool_calls = {std::move(delta)};
  return event;
}

std::shared_ptr<const api::TokenizerInfo> WithTemplate(std::string text) {
  auto info = std::make_shared<api::TokenizerInfo>();
  info->chat_template = std::move(text);
  return info;
}

// What a writer makes of these events, and of the end of the generation.
std::string Written(AnswerForm form, bool stream, std::vector<api::StreamEvent> events,
                    api::FinishReason finish = api::FinishReason::kStop) {
  GenerationCall call;
  call.stream = stream;
  const auto writer = MakeWriter(form, call, {"id", "m:latest", 60, "fp"});
  std::string out;
  const auto send = [&](const api::StreamEvent& event) { writer->OnEvent(0, event, &out); };
  api::StreamEvent start, choice_end, end;
  start.kind = Kind::kStarted;
  send(start);
  for (const api::StreamEvent& event : events) send(event);
  choice_end.kind = Kind::kChoiceEnd;
  choice_end.finish_reason = finish;
  send(choice_end);
  end.kind = Kind::kEnd;
  end.usage.prompt_tokens = 5;
  end.usage.completion_tokens = 2;
  using std::chrono::milliseconds;
  end.timings = {.prepare = milliseconds(1),
                 .queue = milliseconds(2),
                 .prefill = milliseconds(3),
                 .decode = milliseconds(4)};
  send(end);
  writer->OnDone(&out);
  return out;
}

std::string Line(std::string_view rest) { return std::string(kHead) + std::string(rest); }

TEST(OllamaResponse, WholeChatIsOneObject) {
  EXPECT_EQ(
      Written(AnswerForm::kChat, false, {Token("a"), Token("b", "hm")}, api::FinishReason::kLength),
      Line(R"("message":{"role":"assistant","content":"ab","thinking":"hm"},)"
           R"("done":true,"done_reason":"length",)") +
          std::string(kEnd));
}

TEST(OllamaResponse, StreamHasALineForEachPiece) {
  EXPECT_EQ(Written(AnswerForm::kChat, true, {Token("", "hm"), Token(""), Token("a")}),
            Line(R"("message":{"role":"assistant","content":"","thinking":"hm"},"done":false})") +
                "\n" + Line(R"("message":{"role":"assistant","content":"a"},"done":false})") +
                "\n" +
                Line(R"("message":{"role":"assistant","content":""},)"
                     R"("done":true,"done_reason":"stop",)") +
                std::string(kEnd) + "\n");
}

TEST(OllamaResponse, GenerateHasTheTextInResponse) {
  EXPECT_EQ(Written(AnswerForm::kGenerate, true, {Token("a")}),
            Line(R"("response":"a","done":false})") + "\n" +
                Line(R"("response":"","done":true,"done_reason":"stop",)") + std::string(kEnd) +
                "\n");
}

TEST(OllamaResponse, ToolCallsAreSentWhenTheyAreComplete) {
  const std::vector<api::StreamEvent> events = {
      Call({.index = 0, .id = "c0", .name = "f"}), Call({.index = 0, .arguments = R"({"a":)"}),
      Call({.index = 0, .arguments = "1}"}),
      Call({.index = 1, .id = "c1", .name = "g", .arguments = R"({"cut)"})};
  const std::string first = R"({"id":"c0","function":{"index":0,"name":"f","arguments":{"a":1}}})";
  const std::string second = R"({"id":"c1","function":{"index":1,"name":"g","arguments":{}}})";
  const std::string streamed =
      Written(AnswerForm::kChat, true, events, api::FinishReason::kToolCalls);
  const std::string open = R"("message":{"role":"assistant","content":"","tool_calls":[)";
  EXPECT_EQ(streamed.find(Line(open + first + R"(]},"done":false})")), 0U) << streamed;
  EXPECT_NE(streamed.find(Line(open + second + R"(]},"done":false})")), std::string::npos)
      << streamed;
  const std::string whole =
      Written(AnswerForm::kChat, false, events, api::FinishReason::kToolCalls);
  EXPECT_EQ(
      whole.find(Line(open + first + "," + second + R"(]},"done":true,"done_reason":"stop",)")), 0U)
      << whole;
}

TEST(OllamaResponse, ErrorInAStreamIsALine) {
  GenerationCall call;
  call.stream = true;
  const auto writer = MakeWriter(AnswerForm::kChat, call, {});
  std::string out;
  ErrorView error = ViewError(Unavailable("draining", "the server stops"),
                              {.queue_full_http = 503, .form = ErrorForm::kOllama});
  writer->OnError(error, &out);
  EXPECT_EQ(out, "{\"error\":\"the server stops\"}\n");
  error.param = "options.top_k";
  EXPECT_EQ(ErrorBody(error), R"({"error":"options.top_k: the server stops"})");
}

TEST(OllamaResponse, LoadAnswerHasItsReason) {
  GenerationCall call;
  call.shown_model = "m:latest";
  call.load_reason = "unload";
  EXPECT_EQ(LoadBody(AnswerForm::kChat, call, 60),
            Line(R"("message":{"role":"assistant","content":""},"done":true,)"
                 R"("done_reason":"unload"})"));
  EXPECT_EQ(LoadBody(AnswerForm::kGenerate, call, 60),
            Line(R"("response":"","done":true,"done_reason":"unload"})"));
}

TEST(OllamaModels, NamesGetATagUnlessTheyHaveOne) {
  EXPECT_EQ(TaggedName("m"), "m:latest");
  EXPECT_EQ(TaggedName("m:7b"), "m:7b");
  EXPECT_EQ(TaggedName("host:80/m"), "host:80/m:latest");
}

TEST(OllamaModels, CapabilitiesAreThoseOfTheModel) {
  api::ModelInfo model;
  EXPECT_THAT(Capabilities(model), ElementsAre("completion"));
  model.tool_format = "hermes";
  model.fills_middle = true;
  model.tokenizer = WithTemplate("{% if enable_thinking %}");
  EXPECT_THAT(Capabilities(model), ElementsAre("completion", "tools", "insert", "thinking"));
  model.generates = false;
  model.encoder.emplace().width = 8;
  EXPECT_THAT(Capabilities(model), ElementsAre("embedding"));
}

TEST(OllamaModels, BodiesHaveTheMembersThatClientsRead) {
  api::ModelInfo model;
  model.id = "m";
  model.aliases = {"other:1b"};
  model.created_unix_s = 60;
  model.max_model_len = 64;
  model.vocab_size = 9;
  model.architecture = "llama";
  model.quantisation = "Q4_1";
  model.digest = "d1";
  model.files = {.format = "gguf", .type = "Q4_1", .bytes = 99, .parameters = 134'515'008};
  model.files.modified_unix_s = 120;
  model.status.memory_bytes = 500;
  model.sampling.temperature = 0.5;
  model.sampling.top_k = 20;
  model.tokenizer = WithTemplate("T");
  const std::string details =
      R"("details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],)"
      R"("parameter_size":"134.52M","quantization_level":"Q4_1","context_length":64})";
  const auto listed = [&](const std::string& name) {
    return R"({"name":")" + name + R"(","model":")" + name + R"(","size":99,"digest":"d1",)" +
           details + R"(,"modified_at":"1970-01-01T00:02:00Z","capabilities":["completion"]})";
  };
  EXPECT_EQ(TagsBody(std::vector{model}),
            R"({"models":[)" + listed("m:latest") + "," + listed("other:1b") + "]}");
  EXPECT_NE(RunningBody(std::vector{model})
                .find(R"("expires_at":"2318-01-01T00:00:00Z","size_vram":0,"context_length":64})"),
            std::string::npos);
  EXPECT_NE(RunningBody(std::vector{model}).find(R"("size":500,)"), std::string::npos)
      << "the memory that it takes";
  EXPECT_EQ(ShowBody(model),
            R"({"modelfile":"FROM m\n","parameters":"temperature                    0.5\n)"
            R"(top_k                          20","template":"T",)" +
                details +
                R"(,"model_info":{"general.architecture":"llama",)"
                R"("general.parameter_count":134515008,"llama.context_length":64,)"
                R"("llama.vocab_size":9},"capabilities":["completion"],)"
                R"("modified_at":"1970-01-01T00:02:00Z"})");
}

TEST(OllamaModels, ParametersAreCountedInTheUnitsOfOllama) {
  const auto shown = [](int64_t parameters) {
    api::ModelInfo model;
    model.files.parameters = parameters;
    const std::string body = ShowBody(model), mark = R"("parameter_size":")";
    const size_t at = body.find(mark) + mark.size();
    return body.substr(at, body.find('"', at) - at);
  };
  EXPECT_EQ(shown(0), "");
  EXPECT_EQ(shown(999), "999");
  EXPECT_EQ(shown(22'713'216), "22.71M");
  EXPECT_EQ(shown(7'000'000'000), "7B");
  EXPECT_EQ(shown(8'030'261'248), "8.0B");
}

TEST(OllamaModels, LinesOfAPullAreThoseThatClientsDraw) {
  EXPECT_EQ(StatusLine("success"), "{\"status\":\"success\"}\n");
  EXPECT_EQ(BlobLine({.digest = "sha256:0123456789abcdef", .total = 9, .fetched = 4}),
            R"({"status":"pulling 0123456789ab","digest":"sha256:0123456789abcdef",)"
            R"("total":9,"completed":4})"
            "\n");
  EXPECT_EQ(BlobLine({.digest = "sha1:ff", .total = 9}),
            "{\"status\":\"pulling ff\",\"digest\":\"sha1:ff\",\"total\":9}\n");
}

}  // namespace
}  // namespace tutti::protocol::ollama
