#include "protocol/ollama/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <chrono>
#include <optional>
#include <variant>

namespace tutti::protocol::ollama {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Json Body(std::string_view members) {
  return boost::json::parse(R"({"model":"m:latest",)" + std::string(members) + "}");
}
Result<GenerationCall> Chat(std::string_view members, bool strict = false) {
  return ParseChat(Body(R"("messages":[{"role":"user","content":"x"}],)" + std::string(members)),
                   {.strict = strict});
}
Result<GenerationCall> Generate(std::string_view members) {
  return ParseGenerate(Body(members), {});
}
std::string ParamOf(const Result<GenerationCall>& call) {
  return call.ok() ? "accepted" : call.status().param();
}

TEST(OllamaRequest, ReadsOptionsAsTheSamplingChain) {
  const auto call = Chat(
      R"("options":{"temperature":0.5,"top_k":9,"top_p":0.8,"min_p":0.1,"seed":7,"num_predict":5,)"
      R"("stop":["a","b"],"repeat_penalty":1.5,"repeat_last_n":-1,"presence_penalty":1,)"
      R"("frequency_penalty":-1})");
  ASSERT_TRUE(call.ok()) << call.status();
  const api::SamplingParams& params = call->requests.front().sampling;
  EXPECT_EQ(params.temperature, 0.5);
  EXPECT_EQ(params.top_k, 9);
  EXPECT_EQ(params.top_p, 0.8);
  EXPECT_EQ(params.min_p, 0.1);
  EXPECT_EQ(params.seed, 7);
  EXPECT_EQ(params.max_tokens, 5);
  EXPECT_THAT(params.stop, ElementsAre("a", "b"));
  EXPECT_EQ(params.repetition_penalty, 1.5);
  EXPECT_EQ(params.presence_penalty, 1);
  EXPECT_EQ(params.frequency_penalty, -1);
  EXPECT_EQ(call->model, "m");
  EXPECT_EQ(call->shown_model, "m:latest");
  EXPECT_TRUE(call->stream) << "by default";
}

TEST(OllamaRequest, LimitsAndSeedsOfNothingAreAbsent) {
  for (const char* most : {"-1", "-2"}) {
    const auto call =
        Chat(R"("stream":false,"options":{"seed":-1,"num_predict":)" + std::string(most) + "}");
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ(call->requests.front().sampling.seed, std::nullopt);
    EXPECT_EQ(call->requests.front().sampling.max_tokens, api::SamplingParams().max_tokens);
    EXPECT_FALSE(call->stream);
  }
}

TEST(OllamaRequest, AWindowOfNoTokensSwitchesPenaltiesOff) {
  const auto call =
      Chat(R"("options":{"repeat_last_n":0,"repeat_penalty":1.5,"presence_penalty":1,)"
           R"("frequency_penalty":1})");
  ASSERT_TRUE(call.ok()) << call.status();
  const api::SamplingParams& params = call->requests.front().sampling;
  EXPECT_EQ(params.repetition_penalty, 1);
  EXPECT_EQ(params.presence_penalty, 0);
  EXPECT_EQ(params.frequency_penalty, 0);
}

TEST(OllamaRequest, AcceptsOptionsThatChangeNoAnswer) {
  for (const char* option :
       {R"("num_ctx":4096)", R"("num_thread":8)", R"("num_gpu":-1)", R"("low_vram":true)",
        R"("use_mmap":null)", R"("num_keep":4)", R"("num_batch":512)", R"("typical_p":1.0)",
        R"("stop":"")", R"("stop":[])", R"("mirostat":0)", R"("mirostat_tau":5)", R"("tfs_z":1)",
        R"("repeat_last_n":64)", R"("repeat_last_n":64,"repeat_penalty":1.0)",
        R"("draft_num_predict":4)"}) {
    const auto call = Chat(R"("options":{)" + std::string(option) + "}", /*strict=*/true);
    EXPECT_TRUE(call.ok()) << option << " " << call.status();
  }
}

TEST(OllamaRequest, RefusesByNameWhatWouldChangeAnAnswer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("options":{"typical_p":0.5})", "options.typical_p"},
      {R"("options":{"mirostat":1})", "options.mirostat"},
      {R"("options":{"tfs_z":0.5})", "options.tfs_z"},
      {R"("options":{"penalize_newline":false})", "options.penalize_newline"},
      {R"("options":{"rope_frequency_base":10000})", "options.rope_frequency_base"},
      {R"("options":{"repeat_last_n":64,"repeat_penalty":1.1})", "options.repeat_last_n"},
      {R"("options":{"temperature":-1})", "options.temperature"},
      {R"("options":{"top_k":"9"})", "options.top_k"},
      {R"("options":{"num_predict":0})", "options.num_predict"},
      {R"("options":{"stop":[""]})", "options.stop[0]"},
      {R"("options":[])", "options"},
      {R"("format":"xml")", "format"},
      {R"("format":7)", "format"},
      {R"("think":"deep")", "think"},
      {R"("think":1)", "think"},
      {R"("keep_alive":"soon")", "keep_alive"},
      {R"("keep_alive":"5")", "keep_alive"},
      {R"("keep_alive":true)", "keep_alive"},
      {R"("_debug_render_only":true)", "_debug_render_only"},
      {R"("stream":"yes")", "stream"},
      {R"("top_logprobs":21)", "top_logprobs"},
      {R"("tools":{})", "tools"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
  };
  for (const auto& [members, param] : cases) EXPECT_EQ(ParamOf(Chat(members)), param) << members;
  const std::pair<const char*, const char*> prompts[] = {
      {R"("prompt":"x","template":"{{ .Prompt }}")", "template"},
      {R"("prompt":"x","context":[1])", "context"},
      {R"("prompt":"x","images":["aGk="])", "images"},
      {R"("prompt":"x","raw":true,"system":"s")", "system"},
      {R"("prompt":"x","raw":true,"suffix":"s")", "suffix"},
      {R"("prompt":"x","suffix":"s","system":"s")", "system"},
      {R"("prompt":"x","raw":true,"think":true)", "think"},
      {R"("prompt":7)", "prompt"},
  };
  for (const auto& [members, param] : prompts)
    EXPECT_EQ(ParamOf(Generate(members)), param) << members;
  const auto message = [](const char* members) {
    return ParamOf(ParseChat(Body(R"("messages":[)" + std::string(members) + "]"), {}));
  };
  EXPECT_EQ(message(R"({"role":"user","content":"x","images":["aGk="]})"), "messages[0].images");
  EXPECT_EQ(message(R"({"role":"robot","content":"x"})"), "messages[0].role");
  EXPECT_EQ(message(R"({"content":"x"})"), "messages[0].role");
  EXPECT_EQ(message(R"({"role":"user","content":["x"]})"), "messages[0].content");
  EXPECT_EQ(message(R"({"role":"user","tool_calls":[{"function":{"name":"f"}}]})"),
            "messages[0].tool_calls");
  EXPECT_EQ(message(R"({"role":"assistant","tool_calls":[{"function":{"name":"f",)"
                    R"("arguments":"{}"}}]})"),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(message("7"), "messages[0]");
}

TEST(OllamaRequest, ErrorsOfOtherRoutesGetTheNamesOfThisOne) {
  const auto chat = Chat(R"("stream":true)");
  const auto prompt = Generate(R"("prompt":"x")");
  EXPECT_EQ(FieldName(*chat, "messages"), "messages");
  EXPECT_EQ(FieldName(*prompt, "messages"), "prompt");
  EXPECT_EQ(FieldName(*chat, "max_tokens"), "options.num_predict");
  EXPECT_EQ(FieldName(*chat, "repetition_penalty"), "options.repeat_penalty");
  EXPECT_EQ(FieldName(*chat, "chat_template_kwargs.enable_thinking"), "think");
  EXPECT_EQ(FieldName(*chat, "tools[0].function.name"), "tools[0].function.name");
}

TEST(OllamaRequest, UnknownFieldsAreReportedOrRefused) {
  const auto call = Chat(R"("extra":1,"options":{"warp":2})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->ignored, ElementsAre("extra", "options.warp"));
  EXPECT_EQ(ParamOf(Chat(R"("options":{"warp":2})", /*strict=*/true)), "options.warp");
  EXPECT_EQ(ParseChat(boost::json::parse(R"({"messages":[]})"), {}).status().param(), "model");
  EXPECT_EQ(ParseChat(Json(7), {}).status().reason(), "invalid_json");
}

TEST(OllamaRequest, ToolResultsFindTheirCalls) {
  const auto call = ParseChat(
      Body(R"("messages":[{"role":"User","content":"x"},{"role":"assistant","thinking":"hm",)"
           R"("tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},)"
           R"({"id":"own","function":{"index":1,"name":"g","arguments":{}}}]},)"
           R"({"role":"tool","tool_name":"g","content":"2"},{"role":"tool","content":"1"}],)"
           R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}])"),
      {});
  ASSERT_TRUE(call.ok()) << call.status();
  const auto& chat = std::get<api::ChatPrompt>(call->requests.front().prompt);
  ASSERT_THAT(chat.messages, SizeIs(4));
  EXPECT_EQ(chat.messages[0].role, api::Role::kUser);
  EXPECT_EQ(chat.messages[1].reasoning, "hm");
  EXPECT_THAT(chat.messages[1].tool_calls, ElementsAre(api::ToolCall{"call_1_0", "f", R"({"a":1})"},
                                                       api::ToolCall{"own", "g", "{}"}));
  EXPECT_EQ(chat.messages[2].tool_call_id, "own");
  EXPECT_EQ(chat.messages[3].tool_call_id, "call_1_0");
  EXPECT_THAT(chat.tools, SizeIs(1));
}

TEST(OllamaRequest, GenerateChoosesTheFormOfThePrompt) {
  const auto chat = Generate(R"("prompt":"x","system":"s")");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_THAT(std::get<api::ChatPrompt>(chat->requests.front().prompt).messages, SizeIs(2));
  const auto raw = Generate(R"("prompt":"x","raw":true,"think":false)");
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(std::get<api::TextPrompt>(raw->requests.front().prompt).text, "x");
  EXPECT_EQ(raw->requests.front().sampling.max_tokens, api::SamplingParams().max_tokens);
  const auto hole = Generate(R"("prompt":"x","suffix":"y","logprobs":true,"top_logprobs":3)");
  ASSERT_TRUE(hole.ok()) << hole.status();
  EXPECT_EQ(std::get<api::TextPrompt>(hole->requests.front().prompt).suffix, "y");
  EXPECT_EQ(hole->requests.front().sampling.logprobs, 3);
}

TEST(OllamaRequest, ThinkIsAnOptionOfTheTemplate) {
  const auto arguments = [](const char* members) {
    const auto call = Chat(members);
    return call.ok() ? std::get<api::ChatPrompt>(call->requests.front().prompt).template_arguments
                     : call.status().message();
  };
  EXPECT_EQ(arguments(R"("think":true)"), R"({"enable_thinking":true})");
  EXPECT_EQ(arguments(R"("think":false)"), R"({"enable_thinking":false})");
  EXPECT_EQ(arguments(R"("think":"low")"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"("think":null)"), "");
}

TEST(OllamaRequest, WithoutAPromptTheModelIsLoadedOrUnloaded) {
  for (const auto& [keep, reason] :
       {std::pair{"null", "load"}, std::pair{"0", "unload"}, std::pair{"0.0", "unload"},
        std::pair{R"("0")", "unload"}, std::pair{R"("0h0.0s")", "unload"},
        std::pair{R"("1h30m")", "load"}, std::pair{R"("-1s")", "load"}, std::pair{"-1", "load"},
        std::pair{R"("1.5ms")", "load"}}) {
    const auto call = Generate(R"("prompt":"","keep_alive":)" + std::string(keep));
    ASSERT_TRUE(call.ok()) << keep << call.status();
    EXPECT_EQ(call->load_reason, reason) << keep;
    EXPECT_THAT(call->requests, IsEmpty());
  }
  EXPECT_EQ(ParseChat(Body(R"("messages":[])"), {})->load_reason, "load");
  EXPECT_EQ(Chat(R"("keep_alive":0)")->load_reason, "") << "there is a message to answer";
}

TEST(OllamaRequest, RequestsCarryTheirKeepAlive) {
  EXPECT_EQ(Chat(R"("stream":true)")->requests.front().keep_alive, std::nullopt);
  EXPECT_EQ(Chat(R"("keep_alive":"5m")")->requests.front().keep_alive,
            Duration(std::chrono::minutes(5)));
  EXPECT_EQ(Chat(R"("keep_alive":0)")->requests.front().keep_alive, Duration::zero());
  EXPECT_EQ(Chat(R"("keep_alive":-1)")->requests.front().keep_alive, api::kForever);
  EXPECT_EQ(Generate(R"("prompt":"","keep_alive":1.5)")->keep_alive,
            Duration(std::chrono::milliseconds(1500)));
}

TEST(OllamaRequest, EmbedCutsUnlessItIsToldNotTo) {
  const auto embed = [](const char* members) {
    return ParseEmbed(EncodingKind::kOllamaEmbed, Body(members), {});
  };
  const auto call = embed(R"("input":["a","b"],"dimensions":8,"options":{"num_ctx":9})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->request.inputs, SizeIs(2));
  EXPECT_EQ(call->request.model, "m");
  EXPECT_EQ(call->request.dimensions, 8);
  EXPECT_EQ(call->request.truncation, api::Truncation::kRight);
  EXPECT_EQ(call->request.truncate_tokens, 9);
  EXPECT_EQ(call->request.normalize, true);
  const auto whole = embed(R"("input":"a","truncate":false,"dimensions":0)");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->request.truncation, api::EncodeRequest().truncation);
  EXPECT_EQ(whole->request.dimensions, std::nullopt);
  EXPECT_THAT(embed(R"("input":[])")->request.inputs, IsEmpty());
  EXPECT_THAT(embed(R"("input":"")")->request.inputs, IsEmpty());
  EXPECT_THAT(embed(R"("truncate":true)")->request.inputs, IsEmpty());
  EXPECT_EQ(embed(R"("input":[7])").status().param(), "input[0]");
  EXPECT_EQ(embed(R"("input":{})").status().param(), "input");
  EXPECT_EQ(embed(R"("input":"a","truncate":1)").status().param(), "truncate");
  EXPECT_EQ(embed(R"("input":"a","options":{"num_ctx":"9"})").status().param(), "options.num_ctx");
  const auto old = ParseEmbed(EncodingKind::kOllamaEmbeddings, Body(R"("prompt":"a")"), {});
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->input_name, "prompt");
  EXPECT_EQ(old->request.normalize, std::nullopt) << "as the model gives it";
}

TEST(OllamaRequest, ShowTakesBothNamesOfTheModel) {
  EXPECT_EQ(ParseShow(boost::json::parse(R"({"model":"a:latest"})"), {})->model, "a");
  EXPECT_EQ(ParseShow(boost::json::parse(R"({"name":"a:7b"})"), {})->model, "a:7b");
  EXPECT_THAT(ParseShow(boost::json::parse("{}"), {}).status().message(), HasSubstr("model"));
}

TEST(OllamaRequest, CallsOfTheLibraryAreRead) {
  const auto json = [](const char* text) { return boost::json::parse(text); };
  const auto pull = ParsePull(json(R"({"model":"o/m:Q8_0","insecure":false,"stream":false})"), {});
  ASSERT_TRUE(pull.ok()) << pull.status();
  EXPECT_EQ(pull->model, "o/m:Q8_0");
  EXPECT_FALSE(pull->stream);
  EXPECT_TRUE(ParsePull(json(R"({"name":"o/m:latest"})"), {})->stream);
  EXPECT_EQ(ParsePull(json(R"({"name":"o/m:latest"})"), {})->model, "o/m");
  EXPECT_TRUE(ParsePull(json(R"({"model":"m","insecure":true})"), {}).ok());
  EXPECT_EQ(ParsePull(json(R"({"model":"m","username":"u"})"), {}).status().param(), "username");
  EXPECT_EQ(ParsePull(json("{}"), {}).status().param(), "model");
  const auto copy = ParseCopy(json(R"({"source":"a:latest","destination":"b:latest"})"), {});
  EXPECT_EQ(copy->model, "a");
  EXPECT_EQ(copy->destination, "b");
  EXPECT_EQ(ParseCopy(json(R"({"source":"a"})"), {}).status().param(), "destination");
  EXPECT_EQ(ParseDelete(json(R"({"model":"a:7b"})"), {})->model, "a:7b");
  EXPECT_EQ(ParseDelete(json("{}"), {}).status().param(), "model");
}

}  // namespace
}  // namespace tutti::protocol::ollama
