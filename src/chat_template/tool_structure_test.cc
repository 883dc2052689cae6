#include "chat_template/tool_structure.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "amount.h"
#include "chat_template/tool_parser.h"
#include "chat_template/tool_prompt.h"
#include "chat_template/tool_schema.h"
#include "grammar/structure.h"
#include "grammar/testing/accepts.h"
#include "grammar/token_masker.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;
using grammar::testing::Accepts;
using Kind = api::ToolChoice::Kind;

std::vector<api::Tool> TwoTools() {
  return {{.name = "find",
           .parameters = R"({"type":"object","properties":{"query":{"type":"string","maxLength":12},
             "limit":{"type":"integer","minimum":1,"maximum":50},"exact":{"type":"boolean"},
             "order":{"enum":["up","down"]}},"required":["query"],"additionalProperties":false})",
           .param = "tools[0].function"},
          {.name = "now", .param = "tools[1].function"}};
}

// Longer than a byte: those that end texts without quotes would never be drawn byte by byte.
const std::vector<std::string>& LongTokens() {
  static const std::vector<std::string> all = {
      "<tool_call>",  "</tool_call>",     "{\"name\": \"", "\"}",           "}}", "\n", "<escape>",
      "</parameter>", "\n</parameter>\n", "</arg_value>",  "</arg_value>\n"};
  return all;
}
constexpr TokenId kFirstLong = 256;

// Bytes as tokens, some longer ones, and the markers' special tokens.
std::shared_ptr<const grammar::TokenTrie> ByteTrie(size_t specials) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 255; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.emplace_back();  // 0xFF begins special tokens
  for (const std::string& text : LongTokens()) texts.push_back(text);
  for (size_t i = 0; i < specials; ++i)
    texts.push_back(grammar::SpecialTokenBytes(static_cast<TokenId>(texts.size())));
  texts.push_back(grammar::SpecialTokenBytes(static_cast<TokenId>(texts.size())));
  const auto end = static_cast<TokenId>(texts.size() - 1);
  return grammar::TokenTrie::Create(std::move(texts), {end});
}

constexpr TokenId kFirstSpecial = kFirstLong + 11;

// A text of the grammar, drawn step by step; ends soon after it can. Empty: it did not end.
std::string Draw(grammar::TokenMasker& masker, const SpecialTokenTexts& specials,
                 std::mt19937& random) {
  const grammar::TokenTrie& trie = masker.trie();
  grammar::SetId state = masker.start();
  std::string text;
  for (int step = 0; step < 3000; ++step) {
    const auto mask = masker.Mask(state);
    if (mask == nullptr) return "";
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < static_cast<TokenId>(trie.vocabulary()); ++id) {
      if (mask->Allows(id)) allowed.push_back(id);
    }
    if (allowed.empty()) return "";
    // Longer tokens and ends are preferred, or texts would go on for long.
    TokenId chosen = allowed[random() % allowed.size()];
    for (const TokenId id :
         {static_cast<TokenId>('"'), static_cast<TokenId>('}'), static_cast<TokenId>('<')}) {
      if (random() % 4 == 0 && mask->Allows(id)) chosen = id;
    }
    for (TokenId id = kFirstLong; id < kFirstSpecial + static_cast<TokenId>(specials.size());
         ++id) {
      if (random() % 8 == 0 && mask->Allows(id)) chosen = id;
    }
    if (mask->Allows(trie.ends()[0]) && random() % 2 == 0) chosen = trie.ends()[0];
    if (trie.IsEnd(chosen)) return text;
    if (chosen >= kFirstSpecial) {
      text += specials[static_cast<size_t>(chosen - kFirstSpecial)].first;
    } else {
      text += trie.text(chosen);
    }
    state = masker.Next(state, chosen);
  }
  return "";
}

struct Parsed {
  std::string text;
  std::vector<api::ToolCall> calls;
};
Parsed Parse(const ToolSyntax& syntax, const std::string& text) {
  auto options = std::make_shared<ToolParserOptions>();
  options->syntax = &syntax;
  options->tools = TwoTools();
  options->constrained = true;
  ToolParser parser(options, 0);
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kChoiceEnd;
  parser.Push(text, &event);
  parser.Finish(&event);
  Parsed parsed{.text = event.text, .calls = {}};
  for (const api::ToolCallDelta& delta : event.tool_calls) {
    if (delta.index == static_cast<int>(parsed.calls.size()))
      parsed.calls.push_back({delta.id, delta.name, ""});
    parsed.calls.back().arguments += delta.arguments;
  }
  return parsed;
}

// Every text that the grammar allows is parsed as calls, and their arguments are valid.
TEST(ToolAnswer, EveryTextOfTheGrammarIsReadAsCalls) {
  std::mt19937 random(11);
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    if (syntax.call == ToolSyntax::Call::kHarmony) continue;  // harmony_test.cc
    // Markers in angle or square brackets are special tokens of the vocabulary.
    SpecialTokenTexts specials;
    for (const char* const text :
         {"[TOOL_CALLS]", "[ARGS]", "<|tool_call|>", "<|tool_call_start|>",
          "<｜tool▁calls▁begin｜>", "<|tool_call_argument_begin|>", "<|START_ACTION|>",
          "<|END_ACTION|>", "<|tool_call>", "<tool_call|>", "<|\"|>"})
      specials.emplace_back(text, kFirstSpecial + static_cast<TokenId>(specials.size()));
    const auto trie = ByteTrie(specials.size());
    const AnswerShape shape{.tools = TwoTools(), .choice = {.kind = Kind::kRequired}};
    const auto automaton =
        grammar::Compile(ToolAnswer(syntax, shape, MarkerTokens(syntax, specials)));
    ASSERT_TRUE(automaton.ok()) << automaton.status();
    grammar::TokenMasker masker(*automaton, trie);
    const grammar::Structure find = grammar::Structure::Schema(TwoTools()[0].parameters, "");
    const auto valid = grammar::Compile(find);
    ASSERT_EQ(kFirstSpecial - kFirstLong, static_cast<TokenId>(LongTokens().size()));
    int drawn = 0, finds = 0;
    for (int i = 0; i < support::Amount(100, 15); ++i) {
      const std::string text = Draw(masker, specials, random);
      if (text.empty()) continue;
      ++drawn;
      const Parsed parsed = Parse(syntax, text);
      EXPECT_EQ(parsed.text, "") << text;
      ASSERT_FALSE(parsed.calls.empty()) << text;
      for (const api::ToolCall& call : parsed.calls) {
        boost::system::error_code error;
        const auto arguments = boost::json::parse(call.arguments, error);
        ASSERT_TRUE(!error && arguments.is_object()) << text << " gave " << call.arguments;
        if (call.name != "find") {
          EXPECT_EQ(call.name, "now");
          continue;
        }
        ++finds;
        ASSERT_TRUE(arguments.get_object().contains("query")) << text;
        for (const auto& [key, value] : arguments.get_object()) {
          if (key == "query") {
            EXPECT_TRUE(value.is_string()) << text;
          } else if (key == "limit") {
            EXPECT_TRUE(value.is_int64() && value.get_int64() <= 50) << text;
          } else if (key == "exact") {
            EXPECT_TRUE(value.is_bool()) << text;
          } else {
            EXPECT_TRUE(value.as_string() == "up" || value.as_string() == "down") << text;
          }
        }
        if (syntax.call == ToolSyntax::Call::kJson || syntax.call == ToolSyntax::Call::kNamed) {
          EXPECT_TRUE(Accepts(*valid, call.arguments)) << call.arguments;
        }
      }
    }
    EXPECT_GT(drawn, 0);
    EXPECT_GT(finds, 0);
  }
}

grammar::Structure Answer(const char* format, Kind kind, bool parallel = true) {
  return ToolAnswer(
      *FindToolSyntax(format),
      {.tools = TwoTools(), .choice = {.kind = kind, .name = "now"}, .parallel = parallel}, {});
}

TEST(ToolAnswer, FollowsTheToolChoice) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string find =
      "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"x\"}}\n</tool_call>";
  for (const std::string& text : {call, find}) {
    EXPECT_TRUE(Accepts(Answer("hermes", Kind::kAuto), text));
    EXPECT_TRUE(Accepts(Answer("hermes", Kind::kAuto), "Let me see.\n" + text));
    EXPECT_TRUE(Accepts(Answer("hermes", Kind::kRequired), text));
    EXPECT_FALSE(Accepts(Answer("hermes", Kind::kRequired), "Let me see.\n" + text));
    EXPECT_FALSE(Accepts(Answer("hermes", Kind::kNone), text));
  }
  EXPECT_TRUE(Accepts(Answer("hermes", Kind::kAuto), "No call."));
  EXPECT_TRUE(Accepts(Answer("hermes", Kind::kNone), "No call < or <tool."));
  EXPECT_FALSE(Accepts(Answer("hermes", Kind::kRequired), "No call."));
  EXPECT_TRUE(Accepts(Answer("hermes", Kind::kNamed), call));
  EXPECT_FALSE(Accepts(Answer("hermes", Kind::kNamed), find));
  EXPECT_TRUE(Accepts(Answer("hermes", Kind::kRequired), call + "\n" + find));
  EXPECT_FALSE(Accepts(Answer("hermes", Kind::kRequired, false), call + "\n" + find));
  EXPECT_FALSE(Accepts(Answer("hermes", Kind::kAuto),
                       "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>"));
}

TEST(ToolAnswer, FormatsWithoutMarkersTellTextByItsStart) {
  const std::string call = R"({"name": "now", "parameters": {}})";
  EXPECT_TRUE(Accepts(Answer("llama3-json", Kind::kAuto), call));
  EXPECT_TRUE(Accepts(Answer("llama3-json", Kind::kAuto), "Text {\"name\": 1}"));
  EXPECT_FALSE(Accepts(Answer("llama3-json", Kind::kAuto), R"({"name": "rm", "parameters": {}})"));
  EXPECT_FALSE(Accepts(Answer("llama3-json", Kind::kNone), call));
  EXPECT_TRUE(Accepts(Answer("llama-pythonic", Kind::kAuto), "[now()]"));
  EXPECT_TRUE(Accepts(Answer("llama-pythonic", Kind::kAuto), "[1, 2]"));
  EXPECT_TRUE(Accepts(Answer("llama-pythonic", Kind::kAuto),
                      R"([find(query="a", limit=3, exact=True), now()])"));
  EXPECT_FALSE(Accepts(Answer("llama-pythonic", Kind::kAuto), "[find(limit=3)]"));
}

TEST(ToolAnswer, CommandCountsItsCallsAndTagsItsText) {
  const std::string call =
      "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}}"
      "\n]<|END_ACTION|>";
  AnswerShape shape{.tools = TwoTools(),
                    .tags = {.open = "<|START_RESPONSE|>", .close = "<|END_RESPONSE|>"}};
  const ToolSyntax& command = *FindToolSyntax("command");
  const auto accepts = [&](Kind kind, const std::string& text) {
    shape.choice.kind = kind;
    return Accepts(ToolAnswer(command, shape, {}), text);
  };
  for (const Kind kind : {Kind::kAuto, Kind::kRequired}) {
    EXPECT_TRUE(accepts(kind, call));
    EXPECT_FALSE(accepts(kind, "<|START_ACTION|>[]<|END_ACTION|>"));
  }
  EXPECT_TRUE(accepts(Kind::kAuto, "<|START_RESPONSE|>It is 4.<|END_RESPONSE|>"));
  EXPECT_TRUE(accepts(Kind::kAuto, "It is 4."));
  EXPECT_TRUE(accepts(Kind::kAuto, "<|START_RESPONSE|>I look.<|END_RESPONSE|>" + call));
  EXPECT_FALSE(accepts(Kind::kAuto, "<|START_RESPONSE|>I look." + call + "<|END_RESPONSE|>"));
  EXPECT_TRUE(accepts(Kind::kNone, "<|START_RESPONSE|>It is 4.<|END_RESPONSE|>"));
  EXPECT_FALSE(accepts(Kind::kNone, call));
}

// Types, members and enums of a bare call; its keys come in alphabetical order.
TEST(ToolAnswer, BareCallsFollowTheSchema) {
  AnswerShape shape{.tools = {{.name = "f", .parameters = R"({"type":"object","properties":{
                                 "s":{"type":"string"},"n":{"type":"integer","maximum":9},
                                 "e":{"enum":["up",1,null,true]},"c":{"const":"x"},
                                 "l":{"type":"array","items":{"type":"number"},"maxItems":2},
                                 "o":{"type":"object","properties":{"b":{"type":"boolean"},
                                   "a":{"$ref":"#/$defs/t"}},"required":["b"]},
                                 "u":{"anyOf":[{"type":"string"},{"type":"null"}]},
                                 "t":{"type":["integer","string"]},"x":{}},
                                 "required":["s"],"$defs":{"t":{"type":"string"}}})"}},
                    .choice = {.kind = Kind::kRequired}};
  const grammar::Structure answer = ToolAnswer(*FindToolSyntax("functiongemma"), shape, {});
  const auto automaton = grammar::Compile(answer);
  ASSERT_TRUE(automaton.ok()) << automaton.status();
  const auto accepts = [&](const std::string& inner) {
    std::string text = "<start_function_call>call:f{" + inner + "}<end_function_call>";
    for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at))
      text.replace(at, 1, "<escape>");
    return Accepts(*automaton, text);
  };
  for (const char* const inner :
       {"s:`a`", "s:``", "n:3,s:`{a,b}`", "e:`up`,s:`a`", "e:1,s:`a`", "e:null,s:`a`",
        "c:`x`,s:`a`", "l:[],s:`a`", "l:[1,-2.5],s:`a`", "o:{b:true},s:`a`",
        "o:{a:`t`,b:false},s:`a`", "s:`a`,u:`b`", "s:`a`,u:null", "s:`a`,t:5", "s:`a`,t:`5`",
        "s:`a`,x:[1,{k:`v`},true]", "e:true,l:[1],n:0,s:`a`,t:1,u:null,x:`y`"})
    EXPECT_TRUE(accepts(inner)) << inner;
  for (const char* const inner :
       {"", "n:3", "s:a", "s:5", "s:`a`,n:3", "n:10,s:`a`", "n:`3`,s:`a`", "e:`down`,s:`a`",
        "e:2,s:`a`", "c:`y`,s:`a`", "l:[1,2,3],s:`a`", "l:[`1`],s:`a`", "o:{},s:`a`",
        "o:{a:1,b:true},s:`a`", "s:`a`,u:1", "s:`a`,t:true", "s:`a`,s:`b`", "s:`a`,", "z:1,s:`a`"})
    EXPECT_FALSE(accepts(inner)) << inner;
}

// Schemas nested below 32 levels counted as none.
TEST(ToolAnswer, DeepSchemasAreEnforced) {
  std::string schema = R"({"const":1})";
  std::string value = "1", wrong = "2";
  for (int i = 0; i < 20; ++i) {
    schema = R"({"type":"object","properties":{"a":)" + schema +
             R"(},"required":["a"],"additionalProperties":false})";
    value = R"({"a":)" + value + "}";
    wrong = R"({"a":)" + wrong + "}";
  }
  const ToolSyntax& hermes = *FindToolSyntax("hermes");
  const Structure answer =
      ToolAnswer(hermes,
                 {.tools = {{.name = "f", .parameters = schema, .param = "tools[0]"}},
                  .choice = {Kind::kRequired}},
                 {});
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  EXPECT_TRUE(Accepts(answer, call(value)));
  EXPECT_FALSE(Accepts(answer, call(wrong)));
}

// A tool whose schema was a reference took no arguments in these formats.
TEST(ToolAnswer, ARootThatIsAReferenceHasTheArgumentsOfItsDefinition) {
  const std::string schema =
      R"({"$ref":"#/$defs/Args","$defs":{"Args":{"type":"object","properties":{"a":)"
      R"({"type":"integer"}},"required":["a"],"additionalProperties":false}}})";
  for (const char* const format : {"hermes", "llama-pythonic", "qwen3-coder", "gemma"}) {
    const ToolSyntax& syntax = *FindToolSyntax(format);
    const api::Tool tool{.name = "f", .parameters = schema, .param = "tools[0]"};
    EXPECT_EQ(UnenforcedKeyword(syntax, tool), "") << format;
    const Structure answer = ToolAnswer(syntax, {.tools = {tool}, .choice = {Kind::kRequired}}, {});
    const api::ToolCall call{.id = "1", .name = "f", .arguments = R"({"a": 5})"};
    EXPECT_TRUE(Accepts(answer, WriteCalls(syntax, {call}))) << format;
    EXPECT_FALSE(Accepts(answer, WriteCalls(syntax, {{"2", "f", "{}"}}))) << format;
  }
}

// The generic form and others in JSON once let any members through.
TEST(ToolAnswer, AFunctionWithoutParametersTakesNoArguments) {
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    if (syntax.call == ToolSyntax::Call::kHarmony) continue;  // harmony_test.cc
    const Structure answer = ToolAnswer(syntax,
                                        {.tools = {{.name = "now", .param = "tools[0].function"}},
                                         .choice = {.kind = Kind::kRequired},
                                         .parallel = false},
                                        {});
    EXPECT_TRUE(Accepts(answer, WriteCalls(syntax, {{"123456789", "now", "{}"}}))) << syntax.name;
    EXPECT_FALSE(Accepts(answer, WriteCalls(syntax, {{"123456789", "now", R"({"a":"b"})"}})))
        << syntax.name;
  }
}

TEST(ToolAnswer, NamesParametersThatAFormatCannotWrite) {
  const auto path = [](const char* format, const std::string& name) {
    return UnwritableParameter(
        *FindToolSyntax(format),
        {.name = "f", .parameters = R"({"properties":{")" + name + R"(":{}}})", .param = "t"});
  };
  EXPECT_EQ(path("llama-pythonic", "max results"), "t.parameters.properties.max results");
  EXPECT_EQ(path("qwen3-coder", "a>b"), "t.parameters.properties.a>b");
  EXPECT_EQ(path("gemma", "$filter"), "t.parameters.properties.$filter");
  for (const char* const format : {"llama-pythonic", "qwen3-coder", "gemma", "hermes"})
    EXPECT_EQ(path(format, "max_results"), "") << format;
  EXPECT_EQ(path("hermes", "max results"), "");
}

// A reader without the type took "1" for a number.
TEST(ToolAnswer, AnEnumWithoutATypeIsWrittenAsJson) {
  const ToolSyntax& syntax = *FindToolSyntax("qwen3-coder");
  const Structure answer = ToolAnswer(
      syntax,
      {.tools = {{.name = "f",
                  .parameters = R"({"properties":{"a":{"enum":["1"]}},"required":["a"]})",
                  .param = "t"}},
       .choice = {Kind::kRequired}},
      {});
  const auto call = [&](const std::string& value) {
    return std::string(syntax.call_begin) + "f" + std::string(syntax.name_end) +
           std::string(syntax.key_begin) + "a" + std::string(syntax.key_end) + value +
           std::string(syntax.value_end) + std::string(syntax.call_end);
  };
  EXPECT_TRUE(Accepts(answer, call("\"1\"")));
  EXPECT_FALSE(Accepts(answer, call("1")));
}

TEST(ToolAnswer, NamesWhatAFormatCannotEnforce) {
  const api::Tool tool{.name = "f",
                       .parameters = R"({"type":"object","properties":{"n":{"type":"integer",
                         "minimum":1},"o":{"type":"object","properties":{"id":{"type":"string",
                         "pattern":"x"}}}}})",
                       .param = "tools[2].function"};
  const auto found = [&](const char* format, const api::Tool& one) {
    return UnenforcedKeyword(*FindToolSyntax(format), one);
  };
  const std::string in_object = "tools[2].function.parameters.properties.o.properties.id.pattern";
  EXPECT_EQ(found("gemma", tool), in_object);
  EXPECT_EQ(found("hermes", tool), "");
  EXPECT_EQ(found("glm", tool), "") << "an object is written as JSON";
  api::Tool flat = tool;
  flat.parameters = R"({"properties":{"id":{"type":"string","description":"d","maxLength":3}}})";
  for (const char* const format : {"glm", "qwen3-coder", "minimax", "gemma", "functiongemma"})
    EXPECT_EQ(found(format, flat), "tools[2].function.parameters.properties.id.maxLength");
  for (const char* const format : {"hermes", "mistral", "lfm2", "command", "harmony"})
    EXPECT_EQ(found(format, flat), "");
  flat.parameters = R"({"properties":{"id":{"type":"array","items":{"type":"string"},
    "uniqueItems":true}}})";
  EXPECT_EQ(found("gemma", flat), "tools[2].function.parameters.properties.id.uniqueItems");
}

// Neither many parameters nor schemas that refer to themselves make a bare call's grammar explode.
TEST(ToolAnswer, BareCallsOfLargeSchemasStaySmall) {
  std::string properties;
  for (int i = 0; i < 60; ++i) {
    properties +=
        (i == 0 ? "" : ",") + ("\"p" + std::to_string(i)) +
        R"(":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}})";
  }
  AnswerShape shape{
      .tools = {{.name = "f",
                 .parameters = R"({"type":"object","properties":{)" + properties + "}}"},
                {.name = "tree", .parameters = R"({"type":"object","properties":{
        "root":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{
        "a":{"$ref":"#/$defs/node"},"b":{"$ref":"#/$defs/node"},"c":{"$ref":"#/$defs/node"},
        "d":{"$ref":"#/$defs/node"},"v":{"type":"integer"}}}}})"}},
      .choice = {.kind = Kind::kRequired}};
  const auto automaton = grammar::Compile(ToolAnswer(*FindToolSyntax("gemma"), shape, {}));
  ASSERT_TRUE(automaton.ok()) << automaton.status();
  EXPECT_TRUE(Accepts(*automaton, R"(<|tool_call>call:f{p59:{b:<|"|>x<|"|>}}<tool_call|>)"));
  EXPECT_TRUE(Accepts(*automaton, "<|tool_call>call:tree{root:{a:{v:1},b:{d:{v:2}}}}<tool_call|>"));
  EXPECT_FALSE(Accepts(*automaton, "<|tool_call>call:tree{root:{v:true}}<tool_call|>"));
}

TEST(ToolAnswer, TextMayHaveItsOwnConstraint) {
  const AnswerShape shape{
      .tools = TwoTools(),
      .text = grammar::Structure{.kind = grammar::Structure::Kind::kJsonObject}};
  const grammar::Structure answer = ToolAnswer(*FindToolSyntax("hermes"), shape, {});
  EXPECT_TRUE(Accepts(answer, "{\"a\": 1}"));
  EXPECT_TRUE(Accepts(answer, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(Accepts(answer, "plain"));
}

TEST(ToolAnswer, ArgumentsAreAnObjectWhateverTheSchemaAllows) {
  for (const char* schema :
       {R"({"$ref":"#"})", R"({"$ref":"#","$schema":"http://json-schema.org/draft-07/schema#"})",
        R"({"type":["object","null","integer"]})", R"({"type":"object","nullable":true})",
        R"({"anyOf":[{"type":"object"},{"type":"integer"}]})"}) {
    AnswerShape shape{.tools = {{.name = "f", .parameters = schema}},
                      .choice = {.kind = api::ToolChoice::Kind::kRequired}};
    const grammar::Structure answer = ToolAnswer(*FindToolSyntax("hermes"), shape, {});
    const auto call = [](const std::string& arguments) {
      return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
    };
    EXPECT_TRUE(Accepts(answer, call("{}"))) << schema;
    EXPECT_FALSE(Accepts(answer, call("1"))) << schema;
    EXPECT_FALSE(Accepts(answer, call("null"))) << schema;
  }
}

TEST(ToolAnswer, ErrorsNameTheToolsSchema) {
  AnswerShape shape{.tools = TwoTools()};
  shape.tools[0].parameters = R"({"type":"object","properties":{"a":{"not":{"type":"null"}}}})";
  const Status status = grammar::Compile(ToolAnswer(*FindToolSyntax("hermes"), shape, {})).status();
  EXPECT_EQ(status.reason(), "schema_unsupported");
  EXPECT_EQ(status.param(), "tools[0].function.parameters.properties.a.not");
  shape.tools[0].parameters = RelaxedSchema(shape.tools[0].parameters);
  EXPECT_TRUE(grammar::Compile(ToolAnswer(*FindToolSyntax("hermes"), shape, {})).ok());
}

}  // namespace
}  // namespace tutti::chat_template
