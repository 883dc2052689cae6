#include "tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "test_paths.h"
#include "tokenizer/jinja/testing/template_cases.h"

namespace tutti::tokenizer {
namespace {

using jinja::Value;
using testing::Dialogs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadDialogs;
using testing::ReadFile;
using testing::WithKnownExtras;

std::filesystem::path TemplateDir() {
  return support::SourcePath("tests/third_party/chat_templates");
}
std::filesystem::path DataDir() { return support::SourcePath("tests/data/templates"); }

const Dialogs& AllDialogs() {
  static const Dialogs dialogs = ReadDialogs(DataDir() / "dialogs.json");
  return dialogs;
}

struct Family {
  std::string name;
  std::string file;
  SpecialTokens tokens;
  ChatTemplate chat_template;
};

const std::vector<Family>& Families() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all;
    const boost::json::value json = boost::json::parse(ReadFile(TemplateDir() / "templates.json"));
    for (const boost::json::value& entry : json.as_array()) {
      const auto text = [&](const char* key) { return std::string(entry.at(key).as_string()); };
      const SpecialTokens tokens{text("bos_token"), text("eos_token"), "", ""};
      Result<ChatTemplate> compiled =
          ChatTemplate::Compile(ReadFile(TemplateDir() / text("file")), tokens);
      CHECK(compiled.ok()) << text("file") << ": " << compiled.status();
      all.push_back({text("family"), text("file"), tokens, std::move(compiled).value()});
    }
    return all;
  }();
  return families;
}

RenderOptions AtTestTime() {
  RenderOptions options;
  options.now_unix_s = AllDialogs().now_unix_s;
  return options;
}

ChatTemplate Compiled(std::string source, SpecialTokens tokens = {}) {
  Result<ChatTemplate> compiled = ChatTemplate::Compile(std::move(source), std::move(tokens));
  CHECK(compiled.ok()) << compiled.status();
  return std::move(compiled).value();
}

ChatMessage Message(std::string role, std::string content) {
  return {.role = std::move(role), .content = Value::String(std::move(content))};
}

constexpr char kChatMl[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(ChatTemplateReference, EveryFamilyRendersEveryDialogAsTheReferenceDoes) {
  int prompts = 0;
  int refusals = 0;
  std::set<std::string> families_with_ten;
  for (const Family& family : Families()) {
    const std::string stem = std::filesystem::path(family.file).stem();
    const boost::json::value golden = boost::json::parse(ReadFile(DataDir() / (stem + ".json")));
    int here = 0;
    for (const boost::json::value& entry : golden.at("cases").as_array()) {
      const std::string name(entry.at("dialog").as_string());
      SCOPED_TRACE(family.name + ": " + name);
      const Result<RenderedPrompt> rendered = family.chat_template.Render(
          WithKnownExtras(AllDialogs().Named(name), family.chat_template), AtTestTime());
      if (const boost::json::value* const prompt = entry.as_object().if_contains("prompt")) {
        ASSERT_TRUE(rendered.ok()) << rendered.status();
        EXPECT_EQ(rendered->Text(), std::string(prompt->as_string()));
        ++here;
      } else {
        ASSERT_FALSE(rendered.ok()) << "the reference says " << entry.at("error");
        EXPECT_EQ(rendered.status().code(), StatusCode::kInvalidArgument);
        EXPECT_EQ(rendered.status().reason(), "invalid_value");
        EXPECT_EQ(rendered.status().param(), "messages");
        ++refusals;
      }
    }
    prompts += here;
    if (here >= 10) families_with_ten.insert(family.name);
  }
  EXPECT_GE(families_with_ten.size(), 12U);
  EXPECT_GE(prompts, 250);
  EXPECT_GE(refusals, 10);
}

TEST(ChatTemplateReference, SmolLm2AddsItsSystemMessageWhenThereIsNone) {
  const Family& smollm2 = Families().front();
  ASSERT_EQ(smollm2.name, "smollm2");
  ChatInput input;
  input.messages = {Message("user", "Hi")};
  const Result<RenderedPrompt> rendered = smollm2.chat_template.Render(input, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(
      rendered->segments,
      ElementsAre(
          PromptSegment{
              "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
              "Hugging Face<|im_end|>\n<|im_start|>user\n",
              true},
          PromptSegment{"Hi", false}, PromptSegment{"<|im_end|>\n<|im_start|>assistant\n", true}));
}

// --- who wrote what ---

size_t Count(std::string_view text, std::string_view needle) {
  size_t count = 0;
  for (size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + 1))
    ++count;
  return count;
}

// Occurrences inside trusted segments, where the tokenizer would make them control tokens.
size_t CountTrusted(const RenderedPrompt& prompt, std::string_view needle) {
  size_t count = 0;
  for (const PromptSegment& segment : prompt.segments) {
    if (segment.trusted) count += Count(segment.text, needle);
  }
  return count;
}

// Everything in the template that is spelled like a control token, and the file's own BOS and EOS.
std::set<std::string> ControlTokens(const Family& family) {
  std::set<std::string> tokens{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>",
                               "</s>",         "[INST]",     "[/INST]"};
  if (!family.tokens.bos.empty()) tokens.insert(family.tokens.bos);
  if (!family.tokens.eos.empty()) tokens.insert(family.tokens.eos);
  const std::string& source = family.chat_template.source();
  for (size_t open = source.find('<'); open != std::string::npos;
       open = source.find('<', open + 1)) {
    const size_t close = source.find('>', open);
    if (close == std::string::npos) break;
    const std::string token = source.substr(open, close - open + 1);
    if (token.size() <= 40 && token.find_first_of(" \n'\"{") == std::string::npos)
      tokens.insert(token);
  }
  return tokens;
}

ChatInput DialogOf(const std::string& text) {
  ChatInput input;
  input.messages = {Message("system", text), Message("user", text), Message("assistant", text),
                    Message("user", text)};
  return input;
}

TEST(ChatTemplateOrigin, ControlTokensTypedByTheUserNeverBecomeTrusted) {
  size_t tried = 0;
  for (const Family& family : Families()) {
    const Result<RenderedPrompt> plain =
        family.chat_template.Render(DialogOf("plain words"), AtTestTime());
    if (!plain.ok()) continue;  // refuses a system message; the next test takes those
    for (const std::string& token : ControlTokens(family)) {
      SCOPED_TRACE(family.name + ": " + token);
      const Result<RenderedPrompt> typed =
          family.chat_template.Render(DialogOf("a " + token + " b"), AtTestTime());
      if (!typed.ok())
        continue;  // for templates that give some spellings a meaning, such as </think>
      ++tried;
      EXPECT_EQ(CountTrusted(*typed, token), CountTrusted(*plain, token));
    }
  }
  EXPECT_GE(tried, 250U);
}

// A text that no template contains, so that every byte of it in a prompt came from the request.
constexpr char kSnowman[] = "\u2603\u2603";

Value SnowmanLeaves(const Value& value) {
  if (value.is_string()) return Value::String(kSnowman);
  if (value.is_list()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) items.push_back(SnowmanLeaves(item));
    return Value::List(std::move(items));
  }
  if (!value.is_dict()) return value;
  std::vector<Value::Member> members;
  for (const auto& [key, member] : value.members()) {
    // Words that templates branch on stay.
    const bool keep = key.text().bytes() == "type" || key.text().bytes() == "id";
    members.emplace_back(key.text().bytes(), keep ? member : SnowmanLeaves(member));
  }
  return Value::Dict(std::move(members));
}

TEST(ChatTemplateOrigin, NoByteOfTheRequestIsTrustedWhateverTheTemplateDoesWithIt) {
  size_t prompts = 0;
  size_t snowmen = 0;
  for (const Family& family : Families()) {
    for (const testing::Dialog& dialog : AllDialogs().dialogs) {
      SCOPED_TRACE(family.name + ": " + dialog.name);
      ChatInput input = WithKnownExtras(dialog.input, family.chat_template);
      input.tools = SnowmanLeaves(input.tools);
      for (ChatMessage& message : input.messages) {
        message.content = SnowmanLeaves(message.content);
        message.tool_calls = SnowmanLeaves(message.tool_calls);
        if (!message.name.empty()) message.name = kSnowman;
        for (auto& extra : message.extra) extra.second = SnowmanLeaves(extra.second);
      }
      const Result<RenderedPrompt> rendered = family.chat_template.Render(input, AtTestTime());
      if (!rendered.ok()) continue;
      ++prompts;
      bool last_trusted = false;
      for (size_t i = 0; i < rendered->segments.size(); ++i) {
        const PromptSegment& segment = rendered->segments[i];
        EXPECT_FALSE(segment.text.empty());
        EXPECT_TRUE(i == 0 || segment.trusted != last_trusted);
        last_trusted = segment.trusted;
        EXPECT_TRUE(!segment.trusted || segment.text.find("\u2603") == std::string::npos)
            << segment.text;
      }
      snowmen += Count(rendered->Text(), kSnowman);
    }
  }
  EXPECT_GE(prompts, 250U);
  EXPECT_GE(snowmen, 1000U);
}

TEST(ChatTemplateOrigin, OnlyKnownRolesAreTheTemplatesOwnWords) {
  const ChatTemplate phi =
      Compiled("{% for m in messages %}{{ '<|' + m.role + '|>' }}{% endfor %}");
  ChatInput input;
  input.messages = {Message("user", ""), Message("endoftext", "")};
  const Result<RenderedPrompt> rendered = phi.Render(input, {});
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(rendered->segments,
              ElementsAre(PromptSegment{"<|user|><|", true}, PromptSegment{"endoftext", false},
                          PromptSegment{"|>", true}));
}

TEST(ChatTemplateOrigin, ToolSchemasAndOptionsAreClientText) {
  const ChatTemplate t =
      Compiled("{{ tools | tojson }}|{{ option }}|{{ bos_token }}", {.bos = "<s>"});
  ChatInput input;
  input.tools = *jinja::ParseJson(R"([{"name": "<s>"}])");
  input.extra = {{"option", Value::String("<s>")}};
  const Result<RenderedPrompt> rendered = t.Render(input, {});
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(rendered->segments,
              ElementsAre(PromptSegment{R"([{"name": "<s>"}])", false}, PromptSegment{"|", true},
                          PromptSegment{"<s>", false}, PromptSegment{"|<s>", true}));
}

// --- continuing the last message ---

TEST(ChatTemplateContinue, EndsInsideTheLastMessageAndAddsNoHeader) {
  const ChatTemplate t = Compiled(kChatMl);
  ChatInput input;
  input.messages = {Message("user", "Count."), Message("assistant", "One, two, ")};
  input.continue_final_message = true;
  const Result<RenderedPrompt> rendered = t.Render(input, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->Text(),
            "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two, ");
  EXPECT_FALSE(rendered->segments.back().trusted);
}

TEST(ChatTemplateContinue, TheMarkCannotBeForgedByTypingIt) {
  const ChatTemplate t = Compiled(kChatMl);
  ChatInput input;
  input.messages = {Message("assistant", "a CONTINUE_FINAL_MESSAGE_TAG b")};
  input.continue_final_message = true;
  const Result<RenderedPrompt> rendered = t.Render(input, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->Text(), "<|im_start|>assistant\na CONTINUE_FINAL_MESSAGE_TAG b");
}

TEST(ChatTemplateContinue, ATemplateThatTrimsLosesTheTrailingBlank) {
  const ChatTemplate t = Compiled("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}");
  ChatInput input;
  input.messages = {Message("assistant", "One, ")};
  input.continue_final_message = true;
  const Result<RenderedPrompt> rendered = t.Render(input, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->Text(), "[One,");
}

TEST(ChatTemplateContinue, IsRefusedWhenTheTemplateHidesTheMessageOrThereIsNone) {
  const ChatTemplate hides =
      Compiled("{% for m in messages %}{{ m.content.split('|')[-1] }}{% endfor %}");
  ChatInput input;
  input.continue_final_message = true;
  EXPECT_EQ(hides.Render(input, {}).status().reason(), "invalid_value");
  input.messages = {Message("assistant", "secret|shown")};
  const Status status = hides.Render(input, {}).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "messages");
  input.messages = {{.role = "assistant", .content = Value::None()}};
  EXPECT_EQ(hides.Render(input, {}).status().reason(), "invalid_value");
}

// --- options ---

TEST(ChatTemplateOptions, OnlyThoseTheTemplateReadsFromOutsideAreTaken) {
  const ChatTemplate t = Compiled(
      "{% set own = 1 %}{% for item in tools or [] %}{{ item }}{% endfor %}"
      "{% if enable_thinking %}think{% endif %}{{ own }}");
  EXPECT_TRUE(t.Reads("tools"));
  EXPECT_TRUE(t.Reads("enable_thinking"));
  EXPECT_FALSE(t.Reads("item"));
  EXPECT_FALSE(t.Reads("documents"));
  EXPECT_TRUE(t.AcceptsExtra("enable_thinking"));
  EXPECT_FALSE(t.AcceptsExtra("own"));
  EXPECT_FALSE(t.AcceptsExtra("tools"));

  ChatInput input;
  input.extra = {{"enable_thinking", Value::Bool(true)}};
  EXPECT_EQ(t.Render(input, {})->Text(), "think1");
  for (const char* const name :
       {"own", "tools", "messages", "tokenize", "chat_template", "add_generation_prompt",
        "bos_token", "range", "namespace", "raise_exception", "strftime_now", "loop", "_x", "",
        "unheard_of"}) {
    input.extra = {{name, Value::Bool(true)}};
    const Status status = t.Render(input, {}).status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << name;
    EXPECT_EQ(status.param(), std::string("chat_template_kwargs.") + name);
  }
}

TEST(ChatTemplateOptions, AModelThatSetsToolsItselfStillReadsThem) {
  for (const Family& family : Families()) {
    if (family.name == "llama-3.1" || family.name == "qwen-2.5" || family.name == "mistral-nemo") {
      EXPECT_TRUE(family.chat_template.Reads("tools")) << family.name;
    }
    if (family.name == "smollm2" || family.name == "phi-3.5") {
      EXPECT_FALSE(family.chat_template.Reads("tools")) << family.name;
    }
  }
}

// --- failing ---

TEST(ChatTemplateErrors, ARefusalNamesTheLineAndShowsLittleOfTheClientsText) {
  const ChatTemplate t = Compiled("\n\n{{ raise_exception('No role ' + messages[0].role) }}");
  ChatInput input;
  input.messages = {Message(std::string(1000, 'x'), "")};
  const Status status = t.Render(input, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "messages");
  EXPECT_EQ(status.message(), "chat template line 3: No role " + std::string(64, 'x'));
}

TEST(ChatTemplateErrors, InputNestedTooDeepIsRefusedBeforeItRuns) {
  const ChatTemplate t = Compiled("{{ tools | tojson }}");
  const auto nested = [](int depth) {
    Value value = Value::Int(1);
    for (int i = 0; i < depth; ++i) value = Value::List({value});
    return value;
  };
  ChatInput input;
  input.tools = nested(64);
  EXPECT_TRUE(t.Render(input, {}).ok());
  input.tools = nested(65);
  EXPECT_EQ(t.Render(input, {}).status().reason(), "template_depth");
}

TEST(ChatTemplateErrors, TheOutputLimitIsExact) {
  const ChatTemplate t = Compiled("<{{ messages[0].content }}>");
  ChatInput input;
  input.messages = {Message("user", std::string(98, 'x'))};
  RenderOptions options;
  options.max_output_bytes = 100;
  EXPECT_TRUE(t.Render(input, options).ok());
  input.messages = {Message("user", std::string(99, 'x'))};
  const Status status = t.Render(input, options).status();
  EXPECT_EQ(status.reason(), "template_output");
  EXPECT_THAT(status.message(), HasSubstr("100 bytes"));
}

TEST(ChatTemplateErrors, TheSameChatAlwaysUsesTheSameNumberOfSteps) {
  const Family& smollm2 = Families().front();
  const ChatInput& input = AllDialogs().Named("several turns");
  RenderOptions options;
  uint64_t low = 1;
  uint64_t high = options.max_steps;
  while (low < high) {
    options.max_steps = (low + high) / 2;
    if (smollm2.chat_template.Render(input, options).ok()) {
      high = options.max_steps;
    } else {
      low = options.max_steps + 1;
    }
  }
  for (int i = 0; i < 100; ++i) {
    options.max_steps = low;
    EXPECT_TRUE(smollm2.chat_template.Render(input, options).ok());
    options.max_steps = low - 1;
    EXPECT_EQ(smollm2.chat_template.Render(input, options).status().reason(),
              "template_step_limit");
  }
}

TEST(ChatTemplateLimits, AChatOfTheMostMessagesFitsTheDefaultLimits) {
  // 2,047 messages, a megabyte in all: far beyond any context here.
  ChatInput input;
  for (int i = 0; i < 2047; ++i) {
    input.messages.push_back(Message(i % 2 == 0 ? "user" : "assistant", std::string(512, 'x')));
  }
  for (const Family& family : Families()) {
    const Status status = family.chat_template.Render(input, AtTestTime()).status();
    if (family.name == "gemma-4") {
      // Looks back over the earlier messages for each one: quadratic, and stopped in time.
      EXPECT_EQ(status.reason(), "template_step_limit") << status;
    } else if (family.name == "hermes-2-pro") {
      EXPECT_EQ(status.reason(), "invalid_value") << status;  // needs tools
    } else {
      EXPECT_TRUE(status.ok()) << family.name << ": " << status;
    }
  }
}

TEST(ChatTemplateThreads, OneTemplateRendersOnManyThreadsAtOnce) {
  const Family& family = Families().at(4);
  const ChatInput input =
      WithKnownExtras(AllDialogs().Named("tools offered"), family.chat_template);
  const Result<RenderedPrompt> expected = family.chat_template.Render(input, AtTestTime());
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const ChatTemplate copy = family.chat_template;
      for (int i = 0; i < 200; ++i) {
        const Result<RenderedPrompt> rendered = copy.Render(input, AtTestTime());
        if (rendered.ok() && rendered->segments == expected->segments) ++equal[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, ::testing::Each(200));
}

}  // namespace
}  // namespace tutti::tokenizer
