#include <gtest/gtest.h>

#include "protocol/openai/request.h"
#include "protocol/openai/tokenizer_routes.h"
#include "protocol/schema/chat_fields.h"

namespace tutti::protocol {
namespace {

using ChoiceKind = api::ToolChoice::Kind;

constexpr const char* kWeather =
    R"({"type":"function","function":{"name":"weather","description":"Now","parameters":)"
    R"({"type":"object","properties":{"unit":{"type":"string"},"city":{"type":"string"}}},"strict":true}})";

Result<api::ChatPrompt> ChatWith(const std::string& fields,
                                 const std::string& messages = R"([{"role":"user","content":"x"}])",
                                 bool strict = false) {
  ASSIGN_OR_RETURN(const JsonDocument document,
                   ParseJson(R"({"model":"m","messages":)" + messages +
                             (fields.empty() ? "" : ",") + fields + "}"));
  ASSIGN_OR_RETURN(const GenerationCall call,
                   ParseGeneration(Dialect::kChat, document.root(), {.strict = strict}));
  return std::get<api::ChatPrompt>(call.requests.front().prompt);
}

std::string Dialog(const std::string& assistant, const std::string& tool = "") {
  return R"([{"role":"user","content":"x"},)" + assistant + (tool.empty() ? "" : ",") + tool +
         R"(,{"role":"user","content":"y"}])";
}

std::string CallsOf(const std::string& calls) {
  return Dialog(R"({"role":"assistant","tool_calls":)" + calls + "}");
}

TEST(ToolFieldsTest, ReadsAFunctionWithItsSchemaInOrder) {
  const auto chat = ChatWith(R"("tools":[)" + std::string(kWeather) + "]");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->tools,
            std::vector<api::Tool>(
                {{.name = "weather",
                  .description = "Now",
                  .parameters = R"({"type":"object","properties":)"
                                R"({"unit":{"type":"string"},"city":{"type":"string"}}})",
                  .strict = true,
                  .param = "tools[0].function"}}));
  EXPECT_EQ(chat->tool_choice, api::ToolChoice{});
  EXPECT_TRUE(chat->parallel_tool_calls);
}

TEST(ToolFieldsTest, ReadsAFunctionOfANameAlone) {
  const auto chat = ChatWith(
      R"("tools":[{"function":{"name":"f"}},{"type":"function","function":{"name":"g.h-2",)"
      R"("description":null,"parameters":null,"strict":null}}])");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->tools, std::vector<api::Tool>({{.name = "f", .param = "tools[0].function"},
                                                 {.name = "g.h-2", .param = "tools[1].function"}}));
}

TEST(ToolFieldsTest, ReadsEachToolChoice) {
  const std::string tools = R"("tools":[)" + std::string(kWeather) + "],";
  const auto choice = [&](const std::string& value) {
    const auto chat = ChatWith(tools + R"("tool_choice":)" + value);
    EXPECT_TRUE(chat.ok()) << value << chat.status();
    return chat.ok() ? chat->tool_choice : api::ToolChoice{ChoiceKind::kAuto, "failed"};
  };
  EXPECT_EQ(choice("null"), api::ToolChoice{});
  EXPECT_EQ(choice(R"("auto")"), api::ToolChoice{});
  EXPECT_EQ(choice(R"("none")"), api::ToolChoice{ChoiceKind::kNone});
  EXPECT_EQ(choice(R"("required")"), api::ToolChoice{ChoiceKind::kRequired});
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"weather"}})"),
            (api::ToolChoice{ChoiceKind::kNamed, "weather"}));
}

TEST(ToolFieldsTest, ReadsParallelToolCallsWithAndWithoutTools) {
  for (const std::string& tools : {std::string(), R"("tools":[)" + std::string(kWeather) + "],"}) {
    EXPECT_TRUE(ChatWith(tools + R"("parallel_tool_calls":true)")->parallel_tool_calls);
    EXPECT_FALSE(ChatWith(tools + R"("parallel_tool_calls":false)")->parallel_tool_calls);
  }
  EXPECT_EQ(ChatWith(R"("parallel_tool_calls":"no")").status().param(), "parallel_tool_calls");
}

TEST(ToolFieldsTest, TreatsAnEmptyListAsNoTools) {
  const auto chat = ChatWith(R"("tools":[],"tool_choice":"none")");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_TRUE(chat->tools.empty());
}

TEST(ToolFieldsTest, CountsToolsToTheLimit) {
  const auto tools = [](int count) {
    std::string list = R"("tools":[)";
    for (int i = 0; i < count; ++i) {
      list += std::string(i > 0 ? "," : "") + R"({"type":"function","function":{"name":"f)" +
              std::to_string(i) + "\"}}";
    }
    return list + "]";
  };
  EXPECT_TRUE(ChatWith(tools(128)).ok());
  EXPECT_EQ(ChatWith(tools(129)).status().param(), "tools");
}

TEST(ToolFieldsTest, RefusesByPath) {
  const std::string weather(kWeather);
  const std::vector<std::array<std::string, 3>> cases = {
      {R"("tools":{})", "invalid_value", "tools"},
      {R"("tools":[1])", "invalid_value", "tools[0]"},
      {R"("tools":[{}])", "missing_required_parameter", "tools[0].function"},
      {R"("tools":[{"type":7,"function":{"name":"f"}}])", "invalid_value", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "missing_required_parameter", "tools[0].function"},
      {R"("tools":[{"type":"function","function":"f"}])", "invalid_value", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "missing_required_parameter",
       "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":""}}])", "invalid_value",
       "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "invalid_value",
       "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":")" + std::string(65, 'a') + R"("}}])",
       "invalid_value", "tools[0].function.name"},
      {R"("tools":[)" + weather + "," + weather + "]", "invalid_value", "tools[1].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])", "invalid_value",
       "tools[0].function.parameters"},
      {R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])", "invalid_value",
       "tools[0].function.strict"},
      {R"("tools":[{"type":"function","name":"f"}])", "missing_required_parameter",
       "tools[0].function"},
      {R"("tools":[)" + weather + R"(,{"type":"web_search"}])", "unsupported_parameter",
       "tools[1]"},
      {R"("tools":[{"type":"file_search","vector_store_ids":[]}])", "unsupported_parameter",
       "tools[0]"},
      {R"("tools":[{"type":"custom","custom":{"name":"f"}}])", "unsupported_parameter", "tools[0]"},
      {R"("tool_choice":"required")", "invalid_value", "tool_choice"},
      {R"("tool_choice":"any")", "invalid_value", "tool_choice"},
      {R"("tool_choice":7)", "invalid_value", "tool_choice"},
      {R"("tool_choice":{"function":{"name":"f"}})", "invalid_value", "tool_choice.type"},
      {R"("tool_choice":{"type":"function"})", "missing_required_parameter",
       "tool_choice.function"},
      {R"("tool_choice":{"type":"function","function":{}})", "missing_required_parameter",
       "tool_choice.function.name"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "invalid_value",
       "tool_choice"},
      {R"("tools":[)" + weather +
           R"(],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}})",
       "unsupported_parameter", "tool_choice"},
      {R"("functions":[{"name":"f"}])", "unsupported_parameter", "functions"},
      {R"("function_call":{"name":"f"})", "unsupported_parameter", "function_call"},
  };
  for (const auto& [fields, code, param] : cases) {
    const Status status = ChatWith(fields).status();
    EXPECT_EQ(status.reason(), code) << fields << " -> " << status;
    EXPECT_EQ(status.param(), param) << fields << " -> " << status;
  }
  EXPECT_EQ(ChatWith(R"("tools":[{"type":"function","function":{"name":"f","x":1}}])",
                     R"([{"role":"user","content":"x"}])", /*strict=*/true)
                .status()
                .param(),
            "tools[0].function.x");
}

TEST(ToolFieldsTest, ReadsCallsAndTheirResults) {
  const auto chat = ChatWith(
      "",
      Dialog(
          R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[)"
          R"({"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}},)"
          R"({"id":"call_2","index":1,"function":{"name":"g","arguments":""}}]})",
          R"({"role":"tool","tool_call_id":"call_2","content":"42"},)"
          R"({"role":"tool","tool_call_id":"call_1","name":"own","content":)"
          R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
          R"({"role":"tool","tool_call_id":"other","content":""})"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  ASSERT_EQ(chat->messages.size(), 6u);
  const api::ChatMessage& assistant = chat->messages[1];
  EXPECT_EQ(assistant.content, "");
  EXPECT_EQ(assistant.reasoning, "hm");
  EXPECT_EQ(assistant.tool_calls, std::vector<api::ToolCall>({{"call_1", "f", R"({"b":1,"a":2})"},
                                                              {"call_2", "g", "{}"}}));
  EXPECT_EQ(chat->messages[2].tool_call_id, "call_2");
  EXPECT_EQ(chat->messages[2].name, "") << "the gateway names it for templates";
  EXPECT_EQ(chat->messages[2].content, "42");
  EXPECT_EQ(chat->messages[3].name, "own");
  EXPECT_EQ(chat->messages[3].content, "a\nb");
}

// Clients send an answer back as they got it, with the error that its tool gave.
TEST(ToolFieldsTest, TakesBackACallThatItsLengthCut) {
  const auto chat =
      ChatWith("", Dialog(R"({"role":"assistant","content":null,"tool_calls":[)"
                          R"({"id":"c","function":{"name":"f","arguments":"{\"a\": \"Ro"}}]})"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->messages[1].tool_calls[0].arguments, R"({"a": "Ro)");
}

TEST(ToolFieldsTest, ReadsContentBesideCallsAndReasoningUnderBothNames) {
  const auto chat = ChatWith(
      "", Dialog(R"({"role":"assistant","content":"one moment","reasoning":"why","tool_calls":)"
                 R"([{"id":"c","type":"function","function":{"name":"f"}}]})"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->messages[1].content, "one moment");
  EXPECT_EQ(chat->messages[1].reasoning, "why");
  EXPECT_EQ(chat->messages[1].tool_calls[0].arguments, "{}");
  EXPECT_EQ(ChatWith("", R"([{"role":"user","content":"x","reasoning":"not mine"}])")
                ->messages[0]
                .reasoning,
            "");
}

TEST(ToolFieldsTest, RefusesCallsByPath) {
  const std::vector<std::array<std::string, 3>> cases = {
      {CallsOf("{}"), "invalid_value", "messages[1].tool_calls"},
      {CallsOf("[]"), "missing_required_parameter", "messages[1].content"},
      {CallsOf("[1]"), "invalid_value", "messages[1].tool_calls[0]"},
      {CallsOf(R"([{"function":{"name":"f"}}])"), "missing_required_parameter",
       "messages[1].tool_calls[0].id"},
      {CallsOf(R"([{"id":"1"}])"), "missing_required_parameter",
       "messages[1].tool_calls[0].function"},
      {CallsOf(R"([{"id":"1","function":{"arguments":"{}"}}])"), "missing_required_parameter",
       "messages[1].tool_calls[0].function.name"},
      {CallsOf(R"([{"id":"1","type":"custom","custom":{"name":"f","input":""}}])"),
       "unsupported_parameter", "messages[1].tool_calls[0]"},
      {CallsOf(R"([{"id":"1","function":{"name":"f","arguments":{}}}])"), "invalid_value",
       "messages[1].tool_calls[0].function.arguments"},
      {R"([{"role":"user","content":"x","tool_calls":[{"id":"1","function":{"name":"f"}}]}])",
       "invalid_value", "messages[0].tool_calls"},
      {R"([{"role":"tool","tool_call_id":"1"}])", "missing_required_parameter",
       "messages[0].content"},
      {R"([{"role":"assistant","content":"x","function_call":{"name":"f","arguments":"{}"}}])",
       "unsupported_parameter", "messages[0].function_call"},
  };
  for (const auto& [messages, code, param] : cases) {
    const Status status = ChatWith("", messages).status();
    EXPECT_EQ(status.reason(), code) << messages << " -> " << status;
    EXPECT_EQ(status.param(), param) << messages << " -> " << status;
  }
}

TEST(ToolFieldsTest, ReachesEveryRouteWithMessages) {
  const std::string fields = R"("messages":[{"role":"user","content":"x"}],"tools":[)" +
                             std::string(kWeather) +
                             R"(],"tool_choice":"required","parallel_tool_calls":false})";
  const auto check = [](const api::Prompt& prompt) {
    const auto& chat = std::get<api::ChatPrompt>(prompt);
    ASSERT_EQ(chat.tools.size(), 1u);
    EXPECT_EQ(chat.tool_choice, api::ToolChoice{ChoiceKind::kRequired});
    EXPECT_FALSE(chat.parallel_tool_calls);
  };
  const JsonDocument document = ParseJson("{" + fields).value();
  check(ParseGeneration(Dialect::kGenerate, document.root(), {}).value().requests[0].prompt);
  check(ParseTokenize(document.root(), {}).value().requests[0].prompt);
  check(ParseApplyTemplate(document.root(), {}).value().request.prompt);
}

TEST(ToolFieldsTest, RefusesToolsBesideAPromptWithoutMessages) {
  const auto parse = [](const std::string& more) {
    const JsonDocument document = ParseJson(R"({"prompt":"x",)" + more + "}").value();
    const Status generate = ParseGeneration(Dialect::kGenerate, document.root(), {}).status();
    EXPECT_EQ(generate, ParseTokenize(document.root(), {}).status());
    return generate;
  };
  const Status tools = parse(R"("tools":[)" + std::string(kWeather) + "]");
  EXPECT_EQ(tools.reason(), "unsupported_parameter");
  EXPECT_EQ(tools.param(), "tools");
  EXPECT_EQ(parse(R"("tool_choice":"required")").param(), "tool_choice");
  EXPECT_TRUE(parse(R"("tools":[],"tool_choice":"none","parallel_tool_calls":false)").ok());
}

}  // namespace
}  // namespace tutti::protocol
