// Reasoning between each family's tags, from a request to what its client reads: the prompt that
// begins it, constraints that begin behind it, the budget that ends it, the tokens that are
// counted.
#include "gateway/answer_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "chat_template/reasoning_syntax.h"
#include "engine/testing/fake_model_runner.h"
#include "gateway/engine_ports.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

using chat_template::ReasoningSyntax;

struct Thought {
  std::string text, reasoning;
  int reasoning_tokens = 0, tokens = 0;
  Status status;
};

// A model that draws any token its grammar allows, with the tags of `syntax` in its template. The
// prompt ends with the opening tag.
class Thinking {
 public:
  Thinking(const ReasoningSyntax& syntax, bool special_tags, const GatewayOptions& options = {})
      : gateway_(options, clock_) {
    tokenizer::TokenizerSpec spec = tokenizer::testing::ByteLevelSpec();
    for (const std::string_view tag :
         {syntax.open, syntax.close, syntax.answer_open, syntax.answer_close}) {
      // Like in Gemma's vocabulary, the channel's name is not part of the token.
      const std::string token(tag.substr(0, tag.find("thought\n")));
      if (!token.empty() && special_tags)
        tokenizer::testing::AddToken(spec, token, tokenizer::TokenType::kControl);
    }
    const auto size = static_cast<int>(spec.tokens.size());
    model_->info.id = "thinker";
    model_->info.vocab_size = size;
    model_->tokenizer = tokenizer::Tokenizer::Create(std::move(spec)).value();
    std::string source = "{#";
    for (const std::string_view tag : {syntax.close, syntax.answer_open, syntax.answer_close})
      source += " " + std::string(tag);
    source += "#}{% for m in messages %}{{ m.content }}{% endfor %}" + std::string(syntax.open);
    model_->chat_template = tokenizer::ChatTemplate::Compile(source, {}).value();
    model_->tools = chat_template::FindToolSupport("auto", *model_->chat_template,
                                                   model_->tokenizer->vocabulary());
    fake_.limits.vocab_size = size;
    runner_ = std::make_unique<engine::testing::TimingRunner>(fake_, engine::testing::TimingModel{},
                                                              &clock_);
    text_ = std::make_unique<TokenizerText>(model_->tokenizer);
    model_->engine = std::make_shared<engine::Engine>(
        engine::EngineOptions{},
        engine::EngineDependencies{.runner = runner_.get(), .text = text_.get(), .clock = &clock_});
    gateway_.AddModel(model_);
  }

  const ServedModel& model() const { return *model_; }

  // One of `choices` behind reasoning of at most `budget` tokens.
  Thought Ask(int budget, uint64_t seed, std::vector<std::string> choices = {"yes", "no"}) {
    api::GenerateRequest request;
    request.model = "thinker";
    request.prompt =
        api::ChatPrompt{.messages = {{.role = api::Role::kUser, .content = "is it? ", .name = ""}},
                        .add_generation_prompt = true};
    request.sampling.seed = static_cast<int64_t>(seed);
    request.sampling.max_tokens = 200;
    request.constraint =
        api::Constraint{.kind = api::Constraint::Kind::kChoice, .choices = std::move(choices)};
    request.max_reasoning_tokens = budget;
    Thought thought;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    thought.status = generation.status();
    if (!generation.ok()) return thought;
    for (bool ended = false; !ended;) {
      (void)model_->engine->RunOneStep();
      while (const api::StreamEvent* event = generation->Next()) {
        generation->Consumed(event->text.size());
        thought.text += event->text;
        thought.reasoning += event->reasoning;
        ended = event->kind == api::StreamEvent::Kind::kEnd;
        if (!ended) continue;
        thought.reasoning_tokens = event->usage.reasoning_tokens;
        thought.tokens = event->usage.completion_tokens;
        thought.status = generation->stream().status();
      }
    }
    return thought;
  }

 private:
  ManualClock clock_;
  engine::testing::FakeModelOptions fake_;
  std::unique_ptr<engine::testing::TimingRunner> runner_;
  std::unique_ptr<TokenizerText> text_;
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  Gateway gateway_;
};

TEST(AnswerRules, ReasoningIsBoundedWhateverItsTags) {
  for (const ReasoningSyntax& syntax : chat_template::ReasoningSyntaxes()) {
    for (const bool special : {false, true}) {
      SCOPED_TRACE(std::string(syntax.name) + (special ? ", special tokens" : ""));
      Thinking thinking(syntax, special);
      ASSERT_TRUE(thinking.model().tools.has_value());
      ASSERT_EQ(thinking.model().tools->reasoning, &syntax);
      EXPECT_EQ(thinking.model().tools->reasoning_tokens.empty(), !special);
      for (uint64_t seed = 0; seed < 8; ++seed) {
        constexpr int kBudget = 5;
        const Thought thought = thinking.Ask(kBudget, seed);
        ASSERT_TRUE(thought.status.ok()) << thought.status;
        EXPECT_TRUE(thought.text == "yes" || thought.text == "no") << thought.text;
        EXPECT_GT(thought.tokens, 0);
        EXPECT_GT(thought.reasoning_tokens, 0);
        EXPECT_LE(thought.reasoning_tokens, kBudget);
        EXPECT_EQ(thought.reasoning.find(syntax.close), std::string::npos) << thought.reasoning;
      }
    }
  }
}

// The choice " a" came back as "a".
TEST(AnswerRules, AConstraintKeepsItsSpaceBehindReasoning) {
  for (const ReasoningSyntax& syntax : chat_template::ReasoningSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    Thinking thinking(syntax, /*special_tags=*/true);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const Thought thought = thinking.Ask(5, seed, {" a", "b\n"});
      ASSERT_TRUE(thought.status.ok()) << thought.status;
      EXPECT_TRUE(thought.text == " a" || thought.text == "b\n") << "'" << thought.text << "'";
    }
  }
}

TEST(AnswerRules, HiddenReasoningIsCountedAndKeptOneIsText) {
  for (const char* const name : {"think", "mistral", "gemma"}) {
    const auto syntaxes = chat_template::ReasoningSyntaxes();
    const auto syntax = std::find_if(syntaxes.begin(), syntaxes.end(),
                                     [&](const ReasoningSyntax& one) { return one.name == name; });
    ASSERT_NE(syntax, syntaxes.end());
    Thinking hiding(*syntax, true, {.reasoning = api::ReasoningMode::kHide});
    const Thought hidden = hiding.Ask(3, 1);
    ASSERT_TRUE(hidden.status.ok()) << hidden.status;
    EXPECT_TRUE(hidden.text == "yes" || hidden.text == "no") << hidden.text;
    EXPECT_EQ(hidden.reasoning, "");
    EXPECT_GT(hidden.reasoning_tokens, 0);
    Thinking separating(*syntax, true);
    EXPECT_EQ(separating.Ask(3, 1).reasoning_tokens, hidden.reasoning_tokens);
    Thinking keeping(*syntax, true, {.reasoning = api::ReasoningMode::kKeep});
    const Thought kept = keeping.Ask(3, 1);
    ASSERT_TRUE(kept.status.ok()) << kept.status;
    EXPECT_TRUE(kept.text.ends_with("yes") || kept.text.ends_with("no")) << kept.text;
    EXPECT_EQ(kept.reasoning, "");
  }
}

// A model without an engine, whose formats are those of the chat template.
ServedModel ModelWithTemplate(const std::string& source) {
  ServedModel model;
  model.info.id = "model";
  model.tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
  model.info.vocab_size = static_cast<int>(model.tokenizer->vocabulary().size());
  model.chat_template = tokenizer::ChatTemplate::Compile(source, {}).value();
  model.tools =
      chat_template::FindToolSupport("auto", *model.chat_template, model.tokenizer->vocabulary());
  return model;
}

api::GenerateRequest ChatRequest(std::vector<api::Tool> tools) {
  api::GenerateRequest request;
  request.prompt =
      api::ChatPrompt{.messages = {{.role = api::Role::kUser, .content = "x", .name = ""}},
                      .tools = std::move(tools)};
  return request;
}

std::string TextThrough(std::vector<std::unique_ptr<api::OutputParser>> parsers,
                        const std::string& text) {
  EXPECT_EQ(parsers.size(), 1u);
  if (parsers.empty()) return "";
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kChoiceEnd;
  parsers[0]->Push(text, &event);
  parsers[0]->Finish(&event);
  std::string out = event.text;
  for (const api::ToolCallDelta& call : event.tool_calls)
    out += "[" + call.name + " " + call.arguments + "]";
  return out;
}

TEST(AnswerRules, TagsOfTheAnswerAreTakenOutWithToolsAndWithout) {
  const ServedModel model =
      ModelWithTemplate("{# <|END_THINKING|> <|START_ACTION|> \"tool_name\" #}x");
  ASSERT_EQ(model.tools->syntax->name, "command");
  const auto separate = api::ReasoningMode::kSeparate;
  const std::string answer = "<|START_RESPONSE|>It is 4.<|END_RESPONSE|>";
  const std::string call =
      R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>)";
  EXPECT_EQ(TextThrough(MakeParsers(model, ChatRequest({}), {.reasoning = separate}), answer),
            "It is 4.");
  const api::GenerateRequest tools = ChatRequest({{.name = "now"}});
  EXPECT_EQ(TextThrough(MakeParsers(model, tools, {.reasoning = separate}), answer), "It is 4.");
  EXPECT_EQ(TextThrough(MakeParsers(model, tools, {.reasoning = separate}), call), "[now {}]");
  EXPECT_EQ(TextThrough(MakeParsers(model, tools, {.reasoning = separate}), answer + call),
            "It is 4.[now {}]");
  EXPECT_TRUE(
      MakeParsers(model, ChatRequest({}), {.reasoning = api::ReasoningMode::kKeep}).empty());
}

TEST(AnswerRules, AStrictToolIsRefusedWhereItsFormatCannotEnforceIt) {
  const ServedModel model = ModelWithTemplate("{# <|tool_call>call: #}x");
  ASSERT_EQ(model.tools->syntax->name, "gemma");
  api::Tool tool{.name = "f",
                 .parameters = R"({"properties":{"id":{"type":"string","pattern":"x"}}})",
                 .param = "tools[0].function"};
  Constraints constraints;
  const auto compiled = [&] { return FindAnswer(constraints, model, ChatRequest({tool}), {}); };
  EXPECT_TRUE(compiled().ok()) << compiled().status();
  tool.strict = true;
  EXPECT_EQ(compiled().status().reason(), "schema_unsupported");
  EXPECT_EQ(compiled().status().param(), "tools[0].function.parameters.properties.id.pattern");
  tool.parameters = R"({"properties":{"id":{"type":"string"}}})";
  EXPECT_TRUE(compiled().ok()) << compiled().status();
}

TEST(AnswerRules, AToolMayHaveAPatternThatCannotBeEnforced) {
  const ServedModel model = ModelWithTemplate("{# <tool_call> #}x");
  api::Tool tool{.name = "f",
                 .parameters = R"({"properties":{"a":{"type":"string","pattern":"\\bx"}}})",
                 .param = "tools[0].function"};
  Constraints constraints;
  const auto compile = [&] {
    return CompileAnswer(constraints, model, ChatRequest({tool}), {}, nullptr).status();
  };
  EXPECT_TRUE(compile().ok()) << compile();
  tool.strict = true;
  EXPECT_EQ(compile().reason(), "grammar_regex");
}

// Regression: such a tool was refused, strict or not.
TEST(AnswerRules, AToolWithASchemaThatIsTooComplexIsHeldToItsTypes) {
  const ServedModel model = ModelWithTemplate("{# <tool_call> #}x");
  api::Tool tool{.name = "f",
                 .parameters = R"({"properties":{"url":{"type":"string","format":"uri",)"
                               R"("minLength":100000}},"required":["url"]})",
                 .param = "tools[0].function"};
  Constraints constraints;
  const auto compile = [&] {
    return CompileAnswer(constraints, model, ChatRequest({tool}), {}, nullptr);
  };
  const auto known = [&] {
    const auto found = FindAnswer(constraints, model, ChatRequest({tool}), {});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && found->compiled;
  };
  EXPECT_FALSE(known());
  EXPECT_TRUE(compile().ok()) << compile().status();
  EXPECT_TRUE(known()) << "the types are not compiled again";
  tool.strict = true;
  EXPECT_FALSE(known()) << "the types are not enough for a strict tool";
  EXPECT_EQ(compile().status().reason(), "grammar_too_complex");
  EXPECT_EQ(compile().status().param(), "tools[0].function.parameters.properties.url");
}

TEST(AnswerRules, AnErrorBehindReasoningNamesItsField) {
  const ServedModel model = ModelWithTemplate("{# <think> </think> #}x");
  ASSERT_NE(model.tools->reasoning, nullptr);
  api::GenerateRequest request = ChatRequest({});
  request.constraint = {.kind = api::Constraint::Kind::kJsonSchema,
                        .text = R"({"type":"array","minItems":2,"maxItems":1})",
                        .param = "json_schema"};
  Constraints constraints;
  const Status status =
      CompileAnswer(constraints, model, request, {.reasons = true}, nullptr).status();
  EXPECT_EQ(status.reason(), "grammar_empty");
  EXPECT_EQ(status.param(), "json_schema");
}

TEST(AnswerRules, HarmonyFollowsTheMode) {
  const ServedModel model = ModelWithTemplate("{# <|channel|> to=functions. #}x");
  ASSERT_TRUE(chat_template::IsHarmony(model.tools));
  const std::string analysis = "<|channel|>analysis<|message|>Hm.<|end|>";
  const std::string text = analysis + "<|start|>assistant<|channel|>final<|message|>4";
  const api::GenerateRequest request = ChatRequest({});
  using api::ReasoningMode;
  EXPECT_EQ(TextThrough(MakeParsers(model, request, {.reasoning = ReasoningMode::kHide}), text),
            "4");
  EXPECT_EQ(TextThrough(MakeParsers(model, request, {.reasoning = ReasoningMode::kSeparate}), text),
            "4");
  EXPECT_EQ(TextThrough(MakeParsers(model, request, {.reasoning = ReasoningMode::kKeep}), text),
            analysis + "4");
}

}  // namespace
}  // namespace tutti::gateway
