#include "chat_template/tool_parser.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "amount.h"
#include "chat_template/tool_arguments.h"
#include "chat_template/tool_prompt.h"
#include "test_paths.h"

namespace tutti::chat_template {
namespace {

struct Read {
  std::string text;
  std::string broken;  // reasons of broken calls
  std::vector<api::ToolCall> calls;
  api::FinishReason finish = api::FinishReason::kStop;
};

std::vector<api::Tool> Tools() {
  return {{.name = "get_weather",
           .description = "Weather at a place",
           .parameters = R"({"type":"object","properties":{"city":{"type":"string"},
             "days":{"type":"integer"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},
             "required":["city"]})",
           .param = "tools[0].function"},
          {.name = "add",
           .parameters = R"({"type":"object","properties":{"values":{"type":"array",
             "items":{"type":"number"}}},"required":["values"]})",
           .param = "tools[1].function"}};
}

// Cuts the text at random places, or after every byte if `random` is null.
Read ReadText(const std::string& format, const std::string& text, bool constrained,
              std::mt19937* random = nullptr) {
  auto options = std::make_shared<ToolParserOptions>();
  options->syntax = FindToolSyntax(format);
  options->tools = Tools();
  options->constrained = constrained;
  options->id_seed = 7;
  Read read;
  options->on_broken_call = [&](std::string_view reason) {
    (read.broken += read.broken.empty() ? "" : " ") += reason;
  };
  ToolParser parser(options, 0);
  const auto take = [&](const api::StreamEvent& event) {
    read.text += event.text;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      if (delta.index == static_cast<int>(read.calls.size())) {
        EXPECT_FALSE(delta.id.empty());
        EXPECT_FALSE(delta.name.empty());
        read.calls.push_back({delta.id, delta.name, delta.arguments});
      } else {
        ASSERT_EQ(delta.index + 1, static_cast<int>(read.calls.size()));
        EXPECT_TRUE(delta.id.empty() && delta.name.empty());
        read.calls.back().arguments += delta.arguments;
      }
    }
  };
  for (size_t at = 0; at < text.size();) {
    const size_t size = random == nullptr ? 1 : 1 + (*random)() % 40;
    api::StreamEvent event;
    parser.Push(std::string_view(text).substr(at, size), &event);
    take(event);
    at += size;
  }
  api::StreamEvent end;
  end.kind = api::StreamEvent::Kind::kChoiceEnd;
  parser.Finish(&end);
  take(end);
  read.finish = end.finish_reason;
  return read;
}

boost::json::value Json(const std::string& text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return value;
}

void ExpectCalls(const Read& read, const std::vector<std::pair<std::string, std::string>>& calls) {
  ASSERT_EQ(read.calls.size(), calls.size()) << read.text;
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(read.calls[i].name, calls[i].first);
    EXPECT_EQ(Json(read.calls[i].arguments), Json(calls[i].second)) << read.calls[i].arguments;
  }
}

std::string FileAt(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The published template's own writing of calls, as transformers renders it.
std::string Rendered(const std::string& name, const std::string& dialog) {
  const boost::json::value json =
      boost::json::parse(FileAt(support::SourcePath("tests/data/templates/" + name + ".json")));
  for (const auto& one : json.at("cases").as_array()) {
    if (one.at("dialog").as_string() != dialog) continue;
    const boost::json::value* prompt = one.as_object().if_contains("prompt");
    return prompt == nullptr ? "" : std::string(prompt->as_string());
  }
  return "";
}

// The answer in the prompt: the text after the user's question and the opening that follows it.
std::string AnswerIn(const std::string& prompt, std::string_view question,
                     const std::vector<std::string>& openings) {
  size_t begin = prompt.rfind(question);
  if (begin == std::string::npos) return "";
  for (const std::string& opening : openings) {
    const size_t found = prompt.find(opening, begin);
    if (found != std::string::npos) begin = found + opening.size();
  }
  size_t end = prompt.size();
  for (const char* const mark :
       {"<|im_end|>", "</s>", "<|eom_id|>", "<｜end▁of▁sentence｜>", "<|observation|>",
        "<|eot_id|>", "<|END_OF_TURN_TOKEN|>", "<|tool_response>"}) {
    end = std::min(end, std::min(prompt.find(mark, begin), prompt.size()));
  }
  std::string answer = prompt.substr(begin, end - begin);
  // Reasoning is split off before calls are looked for.
  if (const size_t close = answer.find("</think>"); close != std::string::npos)
    answer = answer.substr(answer.find_first_not_of('\n', close + 8));
  return answer;
}

struct Published {
  const char* file;
  const char* format;
  const char* opening;  // what stands between the question and the answer ends with it
  bool parallel = true;
};

const std::vector<Published>& PublishedTemplates() {
  static const std::vector<Published> all = {
      {"qwen-2.5", "hermes", "<|im_start|>assistant\n"},
      {"qwen-3", "hermes", "<|im_start|>assistant\n"},
      {"hermes-2-pro-tools", "hermes", "<|im_start|>assistant\n"},
      {"qwen-3-coder", "qwen3-coder", "<|im_start|>assistant\n"},
      {"qwen-3.5", "qwen3-coder", "<|im_start|>assistant\n"},
      {"glm-4.6", "glm", "</think>\n"},
      {"deepseek-r1", "deepseek-v3", "<｜Assistant｜>"},
      {"deepseek-v3.1", "deepseek-v3.1", "</think>"},
      {"functionary-3.1", "functionary", "<|end_header_id|>\n\n"},
      {"mistral-nemo", "mistral", "[/INST]"},
      {"mistral-v3", "mistral", "[/INST]"},
      {"llama-3.1", "llama3-json", "<|end_header_id|>\n\n", false},
      {"llama-3.2", "llama3-json", "<|end_header_id|>\n\n", false},
      {"command-r7b", "command", "<|END_THINKING|>"},
      {"gemma-4", "gemma", "<|turn>model\n"},
  };
  return all;
}

TEST(ToolParser, ReadsCallsAsPublishedTemplatesWriteThem) {
  for (const Published& one : PublishedTemplates()) {
    SCOPED_TRACE(one.file);
    for (const bool constrained : {false, true}) {
      const std::string prompt = Rendered(one.file, "a tool call and its result");
      ASSERT_FALSE(prompt.empty());
      const Read single =
          ReadText(one.format, AnswerIn(prompt, "in Zürich?", {one.opening}), constrained);
      ExpectCalls(single, {{"get_weather", R"({"city":"Zürich","days":2,"unit":"celsius"})"}});
      EXPECT_EQ(single.text, "");
      EXPECT_EQ(single.finish, api::FinishReason::kToolCalls);
      if (!one.parallel) continue;
      const Read both = ReadText(
          one.format,
          AnswerIn(Rendered(one.file, "parallel calls and an answer"), "and a sum?", {one.opening}),
          constrained);
      ExpectCalls(both,
                  {{"get_weather", R"({"city":"Oslo"})"}, {"add", R"({"values":[1,2.5,-3]})"}});
      EXPECT_TRUE(both.text.empty() || both.text == "Let me see.") << both.text;
    }
  }
}

TEST(ToolSyntax, IsDetectedInPublishedTemplates) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"qwen-2.5", "hermes"},
      {"qwen-3", "hermes"},
      {"hermes-2-pro-tools", "hermes"},
      {"smollm3-3b", "hermes"},
      {"qwen-3-coder", "qwen3-coder"},
      {"qwen-3.5", "qwen3-coder"},
      {"glm-4.6", "glm"},
      {"deepseek-v3.1", "deepseek-v3.1"},
      {"functionary-3.1", "functionary"},
      {"mistral-nemo", "mistral"},
      {"mistral-v3", "mistral"},
      {"llama-3.1", "llama3-json"},
      {"llama-3.2", "llama3-json"},
      {"granite-3.3", "granite"},
      {"command-r7b", "command"},
      {"gemma-4", "gemma"},
      {"command-r-plus", "generic"},
      {"phi-4", "generic"},
      {"smollm2", "generic"},
      {"gemma-2", "generic"},
      {"chatml", "generic"},
      {"llama-2", "generic"},
      {"phi-3", "generic"},
      {"mistral-v1", "generic"},
      {"llama-3", "generic"},
  };
  for (const auto& [file, format] : expected) {
    const auto compiled = tokenizer::ChatTemplate::Compile(
        FileAt(support::SourcePath(std::string("tests/third_party/chat_templates/") + file +
                                   ".jinja")),
        {});
    ASSERT_TRUE(compiled.ok()) << file << compiled.status();
    EXPECT_EQ(DetectToolSyntax(*compiled).name, format) << file;
  }
}

struct Example {
  const char* format;
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;
  std::string rest;  // what stays text
};

const std::vector<Example>& Examples() {
  const std::string oslo = R"({"city":"Oslo"})", sum = R"({"values":[1]})";
  static const std::vector<Example> all = {
      {"hermes",
       "Just text. With < and <tool, and {\"name\": 1}.",
       {},
       "Just text. With < and <tool, and {\"name\": 1}."},
      {"hermes",
       "Hi\n\n<tool_call>{\"name\":\"add\",\"arguments\":{\"values\":[1]}}</tool_call>",
       {{"add", sum}},
       "Hi"},
      // Members in another order, an object as a text, escapes.
      {"hermes",
       "<tool_call>{\"arguments\": {\"values\": [1]}, \"name\": \"add\"}</tool_call>",
       {{"add", sum}},
       ""},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\":\\\"Oslo\\\"}\"}"
       "</tool_call>",
       {{"get_weather", oslo}},
       ""},
      {"hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a \\\"}\\u00e9 b\"}}\n"
       "</tool_call>",
       {{"get_weather", R"({"city":"a \"}é b"})"}},
       ""},
      // Broken: a tool that is not offered, no JSON, no end.
      {"hermes",
       "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>",
       {},
       "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>"},
      {"hermes",
       "a <tool_call>\nadd(1)\n</tool_call> b",
       {},
       "a <tool_call>\nadd(1)\n</tool_call> b"},
      {"hermes",
       "<tool_call>\n{\"name\": \"add\", \"arg",
       {},
       "<tool_call>\n{\"name\": \"add\", \"arg"},
      {"hermes", "<tool_call><tool_call>", {}, "<tool_call><tool_call>"},
      {"llama3-json",
       " {\"name\": \"add\", \"parameters\": {\"values\": [1]}}",
       {{"add", sum}},
       ""},
      {"llama3-json", "{\"name\": \"x\"}", {}, "{\"name\": \"x\"}"},
      {"llama3-json",
       "Hi {\"name\": \"add\", \"parameters\": {\"values\": [1]}}",
       {},
       "Hi {\"name\": \"add\", \"parameters\": {\"values\": [1]}}"},
      {"llama-pythonic",
       "[get_weather(city=\"Oslo\"), add(values=[1])]",
       {{"get_weather", oslo}, {"add", sum}},
       ""},
      {"llama-pythonic",
       "[get_weather(city='O\\'slo', days=2, unit=\"celsius\")]",
       {{"get_weather", R"({"city":"O'slo","days":2,"unit":"celsius"})"}},
       ""},
      {"llama-pythonic", "[1, 2] are numbers", {}, "[1, 2] are numbers"},
      {"llama-pythonic",
       "[add(values=[True, None, {'a': (1, 2,)}])]",
       {{"add", R"({"values":[true,null,{"a":[1,2]}]})"}},
       ""},
      {"lfm2",
       "Sure. <|tool_call_start|>[add(values=[1])]<|tool_call_end|>",
       {{"add", sum}},
       "Sure."},
      {"mistral",
       "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"values\": [1]}}]",
       {{"add", sum}},
       ""},
      {"mistral-args",
       "[TOOL_CALLS]add[ARGS]{\"values\": [1]}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}",
       {{"add", sum}, {"get_weather", oslo}},
       ""},
      {"granite",
       "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"values\": [1]}}]",
       {{"add", sum}},
       ""},
      {"phi4",
       "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"values\": [1]}}]<|/tool_call|>",
       {{"add", sum}},
       ""},
      {"kimi",
       "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
       "<|tool_call_argument_begin|>{\"values\": [1]}<|tool_call_end|><|tool_calls_section_end|>",
       {{"add", sum}},
       "Ok."},
      {"minimax",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Oslo</parameter>\n"
       "<parameter name=\"days\">3</parameter>\n</invoke>\n</minimax:tool_call>",
       {{"get_weather", R"({"city":"Oslo","days":3})"}},
       ""},
      // A text that looks like JSON stays a string if the schema requires a string.
      {"qwen3-coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n\n</parameter>\n</function>\n</"
       "tool_call>",
       {{"get_weather", "{\"city\":\"12\\n\"}"}},
       ""},
      {"glm",
       "<tool_call>add\n<arg_key>values</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call>",
       {{"add", sum}},
       ""},
  };
  return all;
}

TEST(ToolParser, ReadsExamplesOfEachFormat) {
  for (const Example& one : Examples()) {
    SCOPED_TRACE(std::string(one.format) + ": " + one.text);
    const Read read = ReadText(one.format, one.text, false);
    ExpectCalls(read, one.calls);
    EXPECT_EQ(read.text, one.rest);
    EXPECT_EQ(read.finish,
              one.calls.empty() ? api::FinishReason::kStop : api::FinishReason::kToolCalls);
  }
}

TEST(ToolParser, CutsDoNotMatter) {
  std::mt19937 random(3);
  for (const Example& one : Examples()) {
    for (const bool constrained : {false, true}) {
      const Read whole = ReadText(one.format, one.text, constrained);
      for (int i = 0; i < support::Amount(200, 20); ++i) {
        const Read cut = ReadText(one.format, one.text, constrained, &random);
        EXPECT_EQ(cut.text, whole.text) << one.text;
        EXPECT_EQ(cut.calls, whole.calls) << one.text;
      }
    }
  }
}

TEST(ToolParser, StreamsArgumentsOfConstrainedText) {
  auto options = std::make_shared<ToolParserOptions>();
  options->syntax = FindToolSyntax("hermes");
  options->tools = Tools();
  options->constrained = true;
  ToolParser parser(options, 0);
  api::StreamEvent event;
  parser.Push("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"val", &event);
  ASSERT_EQ(event.tool_calls.size(), 1u);
  EXPECT_EQ(event.tool_calls[0].name, "add");
  EXPECT_EQ(event.tool_calls[0].arguments, "{\"val");
  api::StreamEvent end;
  end.kind = api::StreamEvent::Kind::kChoiceEnd;
  end.finish_reason = api::FinishReason::kLength;
  parser.Finish(&end);
  EXPECT_EQ(end.finish_reason, api::FinishReason::kLength);
  EXPECT_EQ(end.text, "");
}

TEST(ToolParser, TellsWhyACallIsBroken) {
  for (const auto& [text, reason] : {
           std::pair("It is 4.", ""),
           std::pair("<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>", ""),
           std::pair("a < b <tool_ b", ""),
           std::pair("<tool_call>\n{\"name\": \"no\", \"arguments\": {}}\n</tool_call>",
                     "unknown_tool"),
           std::pair("<tool_call>\nadd()\n</tool_call>", "syntax"),
           std::pair("<tool_call>\n{\"name\": \"add\", \"argum", "cut"),
           std::pair("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"values\": [1", "cut"),
           std::pair("<tool_call>\nadd()\n</tool_call>\n<tool_call>\n{\"name\": \"add\"",
                     "syntax cut"),
       }) {
    EXPECT_EQ(ReadText("hermes", text, false).broken, reason) << text;
  }
  EXPECT_EQ(ReadText("mistral", "[TOOL_CALLS] none", false).broken, "syntax");
  EXPECT_EQ(ReadText("llama3-json", "{\"a\": 1}", true).broken, "");
  EXPECT_EQ(ReadText("llama3-json", "{\"name\": \"add\", \"parameters\": {\"va", true).broken,
            "cut");
}

// The grammar takes these for free text: nothing holds their arguments to a schema.
TEST(ToolParser, ConstrainedTextThatOnlyResemblesACallStaysText) {
  for (const auto& [format, text] :
       {std::pair("llama3-json", "\n{\"name\": \"add\", \"parameters\": {}}"),
        std::pair("llama3-json", "{ \"name\": \"add\", \"parameters\": {}}"),
        std::pair("llama-pythonic", "[ add(values=[])]"),
        std::pair("llama-pythonic", "[add (values=[])]"),
        std::pair("llama-pythonic", "\n[add(values=[])]")}) {
    const Read read = ReadText(format, text, /*constrained=*/true);
    EXPECT_TRUE(read.calls.empty()) << text;
    EXPECT_EQ(read.text, text);
  }
  for (const auto& [format, text] :
       {std::pair("llama3-json", "{\"name\": \"add\", \"parameters\": {\"values\": [1]}}"),
        std::pair("llama-pythonic", "[add(values=[1])]")}) {
    EXPECT_EQ(ReadText(format, text, /*constrained=*/true).calls.size(), 1u) << text;
  }
}

TEST(ToolParser, IdsAreAsLongAsTheFormatWants) {
  const Read mistral = ReadText(
      "mistral",
      R"([TOOL_CALLS][{"name": "add", "arguments": {}}, {"name": "add", "arguments": {}}])", false);
  ASSERT_EQ(mistral.calls.size(), 2u);
  EXPECT_EQ(mistral.calls[0].id.size(), 9u);
  EXPECT_NE(mistral.calls[0].id, mistral.calls[1].id);
  const Read hermes =
      ReadText("hermes", R"(<tool_call>{"name": "add", "arguments": {}}</tool_call>)", false);
  EXPECT_EQ(hermes.calls[0].id.size(), 29u);
  EXPECT_TRUE(hermes.calls[0].id.starts_with("call_"));
  EXPECT_EQ(HistoryId(*FindToolSyntax("mistral"), hermes.calls[0].id).size(), 9u);
}

// Calls of earlier turns, for templates that leave them out, are read as they were made.
TEST(ToolPrompt, WrittenCallsAreReadAgain) {
  const std::vector<api::ToolCall> calls = {{"a", "get_weather", R"({"city":"O\"slo"})"},
                                            {"b", "add", R"({"values":[1,2]})"}};
  for (const char* const format :
       {"generic", "hermes", "granite", "phi4", "mistral", "deepseek-v3", "deepseek-v3.1", "kimi",
        "functionary", "mistral-args", "qwen3-coder", "glm", "minimax", "llama-pythonic", "lfm2",
        "command", "gemma", "functiongemma"}) {
    const Read read = ReadText(format, WriteCalls(*FindToolSyntax(format), calls), false);
    ExpectCalls(read, {{"get_weather", calls[0].arguments}, {"add", calls[1].arguments}});
  }
}

TEST(ToolPrompt, GenericFormPutsToolsIntoTheSystemMessage) {
  api::ChatPrompt chat{.messages = {{.role = api::Role::kUser, .content = "Hi", .name = ""}}};
  chat.tools = Tools();
  const api::ChatPrompt described =
      WriteToolsAsText(GenericSyntax(), DescribeTools(GenericSyntax(), chat));
  ASSERT_EQ(described.messages.size(), 2u);
  EXPECT_EQ(described.messages[0].role, api::Role::kSystem);
  EXPECT_NE(described.messages[0].content.find("\"name\": \"add\""), std::string::npos);
  EXPECT_NE(described.messages[0].content.find("<tool_call>"), std::string::npos);
  EXPECT_TRUE(described.tools.empty());
  chat.messages.insert(chat.messages.begin(),
                       {.role = api::Role::kSystem, .content = "Be brief.", .name = ""});
  chat.messages.push_back({.role = api::Role::kAssistant,
                           .content = "",
                           .name = "",
                           .tool_calls = {{"1", "add", "{}"}, {"2", "add", "{}"}}});
  chat.messages.push_back(
      {.role = api::Role::kTool, .content = "3", .name = "", .tool_call_id = "1"});
  chat.messages.push_back(
      {.role = api::Role::kTool, .content = "4", .name = "", .tool_call_id = "2"});
  const api::ChatPrompt dialog =
      WriteToolsAsText(GenericSyntax(), DescribeTools(GenericSyntax(), chat));
  ASSERT_EQ(dialog.messages.size(), 4u);
  EXPECT_TRUE(dialog.messages[0].content.starts_with("Be brief.\n\n"));
  ExpectCalls(ReadText("generic", dialog.messages[2].content, false),
              {{"add", "{}"}, {"add", "{}"}});
  EXPECT_EQ(dialog.messages[3].role, api::Role::kUser);
  EXPECT_EQ(dialog.messages[3].content,
            "<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response>");
}

TEST(ToolArguments, SchemasMustAllowObjects) {
  const auto check = [](std::string schema) {
    return CheckToolSchemas({{.name = "f", .parameters = std::move(schema)}});
  };
  for (const char* good :
       {"", "{}", R"({"type":"object"})", R"({"type":["object","null"]})", R"({"$ref":"#"})"})
    EXPECT_TRUE(check(good).ok()) << good;
  for (const char* bad : {R"({"type":"integer"})", R"({"type":["string","null"]})",
                          R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"array"}}})"}) {
    EXPECT_EQ(check(bad).reason(), "schema_invalid") << bad;
    EXPECT_EQ(check(bad).param(), "tools[0].parameters.type") << bad;
  }
}

TEST(ToolArguments, AllSchemasTogetherHaveAtMost1MiB) {
  const std::string schema = R"({"title":")" + std::string(600'000, 'x') + R"("})";
  const api::Tool tool{.name = "f", .parameters = schema};
  EXPECT_TRUE(CheckToolSchemas({tool}).ok());
  EXPECT_EQ(CheckToolSchemas({tool, tool}).reason(), "grammar_too_complex");
  EXPECT_EQ(CheckToolSchemas({tool, tool}).param(), "tools");
}

TEST(ToolArguments, NumbersKeepTheirDigits) {
  const auto call =
      ReadJsonCall(R"({"name":"f","arguments":{"a":12345678901234567890123,"b":1.10}})");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->arguments, R"({"a":12345678901234567890123,"b":1.10})");
}

}  // namespace
}  // namespace tutti::chat_template
