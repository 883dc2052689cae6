#include "chat_template/harmony.h"

#include <gtest/gtest.h>

#include "api/token_stream.h"
#include "grammar/structure.h"
#include "grammar/testing/accepts.h"

namespace tutti::chat_template {
namespace {

struct HarmonyRead {
  std::string text, reasoning;
  std::vector<api::ToolCall> calls;
  api::FinishReason finish = api::FinishReason::kStop;
};

std::vector<api::Tool> OneTool() {
  return {{.name = "get_weather",
           .parameters = R"({"type":"object","properties":{"city":{"type":"string"}},
                            "required":["city"],"additionalProperties":false})",
           .param = "tools[0].function"}};
}

HarmonyRead ReadHarmony(const std::string& text, size_t step,
                        api::ReasoningMode mode = api::ReasoningMode::kSeparate) {
  auto options = std::make_shared<ToolParserOptions>();
  options->syntax = FindToolSyntax("harmony");
  options->tools = OneTool();
  HarmonyParser parser(options, 0, mode);
  HarmonyRead read;
  const auto take = [&](const api::StreamEvent& event) {
    read.text += event.text;
    read.reasoning += event.reasoning;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      if (delta.index == static_cast<int>(read.calls.size()))
        read.calls.push_back({delta.id, delta.name, ""});
      read.calls.back().arguments += delta.arguments;
    }
  };
  for (size_t at = 0; at < text.size(); at += step) {
    api::StreamEvent event;
    parser.Push(std::string_view(text).substr(at, step), &event);
    take(event);
  }
  api::StreamEvent end;
  end.kind = api::StreamEvent::Kind::kChoiceEnd;
  parser.Finish(&end);
  take(end);
  read.finish = end.finish_reason;
  return read;
}

TEST(HarmonyParser, SplitsChannelsAtEveryCut) {
  const std::string text =
      "<|channel|>analysis<|message|>Think < about | it.<|end|><|start|>assistant"
      "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant"
      "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
      "{\"city\": \"Oslo\"}<|call|>";
  for (size_t step = 1; step <= text.size(); ++step) {
    const HarmonyRead read = ReadHarmony(text, step);
    EXPECT_EQ(read.reasoning, "Think < about | it.");
    EXPECT_EQ(read.text, "One moment.");
    ASSERT_EQ(read.calls.size(), 1u);
    EXPECT_EQ(read.calls[0].name, "get_weather");
    EXPECT_EQ(read.calls[0].arguments, "{\"city\": \"Oslo\"}");
    EXPECT_EQ(read.finish, api::FinishReason::kToolCalls);
  }
}

TEST(HarmonyParser, ReasoningIsSeparatedHiddenOrKept) {
  const std::string analysis = "<|channel|>analysis<|message|>Hm < 2.<|end|>";
  const std::string text =
      analysis + "<|start|>assistant<|channel|>final<|message|>It is 4.<|return|>";
  for (size_t step = 1; step <= text.size(); ++step) {
    const HarmonyRead hidden = ReadHarmony(text, step, api::ReasoningMode::kHide);
    EXPECT_EQ(hidden.text, "It is 4.");
    EXPECT_EQ(hidden.reasoning, "");
    const HarmonyRead kept = ReadHarmony(text, step, api::ReasoningMode::kKeep);
    EXPECT_EQ(kept.text, analysis + "It is 4.");
    EXPECT_EQ(kept.reasoning, "");
  }
}

// In every mode, each token of the analysis counts, and so does the marker that ends it.
TEST(HarmonyParser, TokensOfReasoningAreCounted) {
  for (const api::ReasoningMode mode :
       {api::ReasoningMode::kSeparate, api::ReasoningMode::kHide, api::ReasoningMode::kKeep}) {
    auto options = std::make_shared<ToolParserOptions>();
    options->syntax = FindToolSyntax("harmony");
    const auto stream = std::make_shared<api::TokenStream>(nullptr);
    std::vector<std::unique_ptr<api::OutputParser>> parsers;
    parsers.push_back(std::make_unique<HarmonyParser>(options, 0, mode));
    stream->ParseOutput(std::move(parsers));
    for (const char* const token :
         {"<|channel|>", "analysis", "<|message|>", "One", " two", " three", "<|end|>", "<|start|>",
          "assistant", "<|channel|>", "final", "<|message|>", "Four"}) {
      api::StreamEvent event;
      event.kind = api::StreamEvent::Kind::kToken;
      event.text = token;
      stream->Append(std::move(event));
    }
    stream->Finish(OkStatus(), {.completion_tokens = 13}, {});
    api::Generation generation(stream, nullptr);
    int counted = -1;
    while (const api::StreamEvent* event = generation.Next()) {
      if (event->kind == api::StreamEvent::Kind::kEnd) counted = event->usage.reasoning_tokens;
    }
    EXPECT_EQ(counted, 3);
  }
}

TEST(HarmonyParser, AMarkWithinABodyBeginsNoOther) {
  const HarmonyRead read = ReadHarmony(
      "<|channel|>commentary to=functions.get_weather<|message|>{<|message|>}<|call|>", 1);
  ASSERT_EQ(read.calls.size(), 1u);
  EXPECT_EQ(read.calls[0].arguments, "{}");
}

TEST(HarmonyParser, ReadsTheRecipientBeforeTheChannel) {
  const HarmonyRead read =
      ReadHarmony(" to=functions.get_weather<|channel|>commentary json<|message|>{}<|call|>", 3);
  ASSERT_EQ(read.calls.size(), 1u);
  EXPECT_EQ(read.calls[0].arguments, "{}");
}

TEST(HarmonyParser, AFinalMessageIsTheText) {
  const HarmonyRead read = ReadHarmony("<|channel|>final<|message|>Cold.", 2);
  EXPECT_EQ(read.text, "Cold.");
  EXPECT_EQ(read.finish, api::FinishReason::kStop);
  EXPECT_EQ(ReadHarmony("No header at all", 1).text, "No header at all");
}

TEST(HarmonyParser, AnUnknownFunctionStaysText) {
  const HarmonyRead read = ReadHarmony("<|channel|>commentary to=functions.rm<|message|>{}", 1);
  EXPECT_TRUE(read.calls.empty());
  EXPECT_EQ(read.text, "{}");
}

TEST(HarmonyAnswer, FollowsTheToolChoice) {
  SpecialTokenTexts tokens;
  for (const char* const text :
       {"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|constrain|>", "<|call|>"})
    tokens.emplace_back(text, static_cast<TokenId>(300 + tokens.size()));
  // As the automaton reads special tokens.
  const auto bytes = [&](std::string text) {
    for (const auto& [mark, id] : tokens) {
      for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
        text.replace(at, mark.size(), grammar::SpecialTokenBytes(id));
    }
    return text;
  };
  const std::string analysis = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  const std::string final_text = "<|channel|>final<|message|>Hi";
  const std::string call =
      "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"O\"}";
  using Kind = api::ToolChoice::Kind;
  const auto accepts = [&](Kind kind, const std::string& text) {
    return grammar::testing::Accepts(
        HarmonyAnswer({.tools = OneTool(), .choice = {.kind = kind, .name = "get_weather"}},
                      tokens),
        bytes(text));
  };
  for (const std::string& before : {std::string(), analysis}) {
    EXPECT_TRUE(accepts(Kind::kAuto, before + final_text));
    EXPECT_TRUE(accepts(Kind::kAuto, before + call));
    EXPECT_TRUE(accepts(Kind::kRequired, before + call));
    EXPECT_FALSE(accepts(Kind::kRequired, before + final_text));
    EXPECT_FALSE(accepts(Kind::kNone, before + call));
    EXPECT_TRUE(accepts(Kind::kNamed, before + call));
  }
  EXPECT_FALSE(accepts(Kind::kAuto,
                       "<|channel|>commentary to=functions.get_weather "
                       "<|constrain|>json<|message|>{}"));
}

}  // namespace
}  // namespace tutti::chat_template
