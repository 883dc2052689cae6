// llama.cpp's /infill, in and out.
#include "protocol/openai/infill.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

Result<GenerationCall> Infill(const std::string& more, const ParseOptions& options = {}) {
  ASSIGN_OR_RETURN(const JsonDocument document,
                   ParseJson(R"({"input_prefix":"a","input_suffix":"b")" +
                             (more.empty() ? "" : "," + more) + "}"));
  return ParseGeneration(Dialect::kInfill, document.root(), options);
}
const api::TextPrompt& Hole(const Result<GenerationCall>& call) {
  return std::get<api::TextPrompt>(call->requests.front().prompt);
}

TEST(InfillRequest, TheTextsStandAroundTheHole) {
  const auto plain = Infill("");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(Hole(plain).text, "a");
  EXPECT_EQ(Hole(plain).suffix, "b");
  EXPECT_TRUE(Hole(plain).files.empty());
  EXPECT_FALSE(plain->stream);
  EXPECT_FALSE(plain->requests.front().sampling.max_tokens.has_value());
  const auto typed = Infill(R"("prompt":"c")");
  ASSERT_TRUE(typed.ok()) << typed.status();
  EXPECT_EQ(Hole(typed).text, "ac");
}

TEST(InfillRequest, FilesHaveATextAndPerhapsAName) {
  const auto call =
      Infill(R"("input_extra":[{"filename":"x.py","text":"one","time":7},{"text":"two"},)"
             R"({"filename":null,"text":""}])");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(Hole(call).files,
            (std::vector<api::ContextFile>{{"x.py", "one"}, {"", "two"}, {"", ""}}));
  EXPECT_EQ(call->ignored, std::vector<std::string>{"input_extra[0].time"});
  EXPECT_TRUE(Infill(R"("input_extra":[])").ok());
}

TEST(InfillRequest, WhatIsNoFileIsNamed) {
  const auto blame = [](const std::string& files, bool strict = false) {
    ParseOptions options;
    options.strict = strict;
    const Status status = Infill("\"input_extra\":" + files, options).status();
    return status.reason() + " " + status.param();
  };
  EXPECT_EQ(blame("[1]"), "invalid_value input_extra[0]");
  EXPECT_EQ(blame(R"([{"text":"x"},{"text":1}])"), "invalid_value input_extra[1].text");
  EXPECT_EQ(blame(R"([{"text":"x","filename":1}])"), "invalid_value input_extra[0].filename");
  EXPECT_EQ(blame(R"([{"filename":"x"}])"), "missing_required_parameter input_extra[0].text");
  EXPECT_EQ(blame(R"([{"text":"x","time":1}])", true), "unknown_parameter input_extra[0].time");
  EXPECT_EQ(blame("{}"), "invalid_value input_extra");
}

TEST(InfillRequest, BothTextsAreNeededAndOneMayBeEmpty) {
  const auto parse = [](const char* text) {
    return ParseGeneration(Dialect::kInfill, ParseJson(text)->root(), {}).status();
  };
  EXPECT_EQ(parse(R"({"input_suffix":"b"})").param(), "input_prefix");
  EXPECT_EQ(parse(R"({"input_prefix":"b"})").param(), "input_suffix");
  EXPECT_TRUE(parse(R"({"input_prefix":"","input_suffix":"b"})").ok());
  EXPECT_TRUE(parse(R"({"input_prefix":"a","input_suffix":""})").ok());
  EXPECT_EQ(parse(R"({"input_prefix":"","input_suffix":""})").reason(), "empty_prompt");
}

TEST(InfillRequest, TheLengthIsLlamaCppsAndMayBeNothing) {
  EXPECT_EQ(Infill(R"("n_predict":9)")->requests.front().sampling.max_tokens, 9);
  EXPECT_EQ(Infill(R"("max_tokens":9)")->requests.front().sampling.max_tokens, 9);
  EXPECT_FALSE(Infill(R"("n_predict":-1)")->requests.front().sampling.max_tokens.has_value());
  EXPECT_EQ(Infill(R"("n_predict":9,"max_tokens":8)").status().param(), "n_predict");
  EXPECT_EQ(Infill(R"("n_predict":-2)").status().param(), "n_predict");
  const auto warm = Infill(R"("n_predict":0)");
  ASSERT_TRUE(warm.ok()) << warm.status();
  EXPECT_TRUE(warm->prompt_only);
  EXPECT_EQ(warm->requests.front().sampling.max_tokens, 1) << "the prompt has to be computed";
  EXPECT_FALSE(Infill(R"("n_predict":1)")->prompt_only);
}

TEST(InfillRequest, WhatEditorsSendIsTakenOrReported) {
  const auto call = Infill(
      R"("input_extra":[],"prompt":"","n_predict":64,"n_indent":4,"top_k":40,"top_p":0.99,)"
      R"("stream":false,"samplers":["top_k","top_p","infill"],"cache_prompt":true,)"
      R"("t_max_prompt_ms":500,"t_max_predict_ms":1000,"id_slot":0,"response_fields":["content"],)"
      R"("temperature":0.1,"seed":-1)");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->requests.front().sampling.top_k, 40);
  EXPECT_EQ(call->requests.front().sampling.temperature, 0.1);
  EXPECT_EQ(call->ignored,
            (std::vector<std::string>{"n_indent", "samplers", "cache_prompt", "t_max_prompt_ms",
                                      "t_max_predict_ms", "id_slot", "response_fields"}));
  EXPECT_EQ(Infill(R"("repeat_penalty":1.1)").status().reason(), "unsupported_parameter");
  EXPECT_EQ(Infill(R"("mirostat":2)").status().reason(), "unsupported_parameter");
}

api::StreamEvent InfillEvent(api::StreamEvent::Kind kind, const std::string& text = "") {
  api::StreamEvent event;
  event.kind = kind;
  event.text = text;
  if (kind == api::StreamEvent::Kind::kStarted) event.usage.prompt_tokens = 5;
  if (kind == api::StreamEvent::Kind::kEnd) {
    event.usage.prompt_tokens = 5;
    event.usage.completion_tokens = 2;
  }
  return event;
}

// The answer to `call`, with each event's bytes apart.
std::vector<std::string> Answered(const GenerationCall& call, const api::StreamEvent& end) {
  using Kind = api::StreamEvent::Kind;
  const auto writer = MakeResponseWriter(call, {"infill-1", "m", 0, ""}, {});
  std::vector<std::string> parts;
  const auto feed = [&](const api::StreamEvent& event) {
    std::string out;
    writer->OnEvent(0, event, &out);
    if (!out.empty()) parts.push_back(out);
  };
  feed(InfillEvent(Kind::kStarted));
  feed(InfillEvent(Kind::kToken, "x\n"));
  feed(InfillEvent(Kind::kToken, ""));
  feed(end);
  feed(InfillEvent(Kind::kEnd));
  std::string out;
  writer->OnDone(&out);
  parts.push_back(out);
  return parts;
}

TEST(InfillAnswer, AWholeOneIsLlamaCppsObject) {
  const GenerationCall call = Infill("").value();
  api::StreamEvent end = InfillEvent(api::StreamEvent::Kind::kChoiceEnd, "y");
  const auto answer = [&] {
    const std::vector<std::string> parts = Answered(call, end);
    EXPECT_EQ(parts.size(), 1u);
    return ParseJson(parts.back())->root();
  };
  const Json whole = answer();
  EXPECT_EQ(whole.at("content"), "x\ny");
  EXPECT_EQ(whole.at("stop"), true);
  EXPECT_EQ(whole.at("model"), "m");
  EXPECT_EQ(whole.at("tokens_predicted"), 2);
  EXPECT_EQ(whole.at("tokens_evaluated"), 5);
  EXPECT_EQ(whole.at("tokens_cached"), 7);
  EXPECT_EQ(whole.at("has_new_line"), true);
  EXPECT_EQ(whole.at("truncated"), false);
  EXPECT_EQ(whole.at("stop_type"), "eos");
  EXPECT_EQ(whole.at("stopping_word"), "");
  EXPECT_EQ(whole.at("timings").at("predicted_n"), 2);
  end.stop_reason = std::string("END");
  EXPECT_EQ(answer().at("stop_type"), "word");
  EXPECT_EQ(answer().at("stopping_word"), "END");
  end.stop_reason = TokenId{7};
  EXPECT_EQ(answer().at("stop_type"), "eos");
  end.finish_reason = api::FinishReason::kLength;
  EXPECT_EQ(answer().at("stop_type"), "limit");
}

TEST(InfillAnswer, AStreamEndsWithTheObjectAndNoMark) {
  const GenerationCall call = Infill(R"("stream":true)").value();
  const std::vector<std::string> parts =
      Answered(call, InfillEvent(api::StreamEvent::Kind::kChoiceEnd, "y"));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0],
            "data: {\"index\":0,\"content\":\"x\\n\",\"stop\":false,\"tokens_predicted\":1,"
            "\"tokens_evaluated\":5}\n\n");
  EXPECT_EQ(parts[1],
            "data: {\"index\":0,\"content\":\"y\",\"stop\":false,\"tokens_predicted\":2,"
            "\"tokens_evaluated\":5}\n\n");
  EXPECT_TRUE(parts[2].starts_with("data: {\"index\":0,\"content\":\"\",\"stop\":true,"))
      << parts[2];
  EXPECT_TRUE(parts[2].ends_with("}\n\n"));
}

TEST(InfillAnswer, OneOfThePromptAloneShowsNoToken) {
  for (const char* more : {R"("n_predict":0)", R"("n_predict":0,"stream":true)"}) {
    const GenerationCall call = Infill(more).value();
    const std::vector<std::string> parts =
        Answered(call, InfillEvent(api::StreamEvent::Kind::kChoiceEnd, "y"));
    ASSERT_EQ(parts.size(), 1u) << more;
    const std::string text =
        parts[0].starts_with("data: ") ? parts[0].substr(std::string("data: ").size()) : parts[0];
    const JsonDocument answer = ParseJson(text).value();
    EXPECT_EQ(answer.root().at("content"), "");
    EXPECT_EQ(answer.root().at("tokens_predicted"), 0);
    EXPECT_EQ(answer.root().at("tokens_evaluated"), 5);
    EXPECT_EQ(answer.root().at("stop_type"), "limit");
  }
}

TEST(InfillAnswer, AFailureIsAnEventWithAnError) {
  const GenerationCall call = Infill(R"("stream":true)").value();
  const auto writer = MakeResponseWriter(call, {}, {});
  std::string out;
  writer->OnError(ViewError(Unavailable("engine_stalled", "it stands")), &out);
  EXPECT_TRUE(out.starts_with("data: {\"error\":{\"message\":\"it stands\"")) << out;
  EXPECT_TRUE(out.ends_with("}\n\n"));
}

TEST(InfillParam, NamesTheFieldOfTheRoute) {
  EXPECT_EQ(InfillParam("suffix"), "input_suffix");
  EXPECT_EQ(InfillParam("prompt"), "input_prefix");
  EXPECT_EQ(InfillParam("files"), "input_extra");
  EXPECT_EQ(InfillParam("max_tokens"), "n_predict");
  EXPECT_EQ(InfillParam("temperature"), "temperature");
  EXPECT_EQ(InfillParam(""), "");
}

}  // namespace
}  // namespace tutti::protocol
