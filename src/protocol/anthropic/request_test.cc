#include "protocol/anthropic/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protocol/json/json.h"

namespace tutti::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MessagesRequest : public ::testing::Test {
 protected:
  static Result<GenerationCall> Parse(const std::string& text, ParseOptions options = {}) {
    ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(text));
    return ParseMessages(document.root(), options);
  }
  // A body of these messages, and other members.
  static std::string Body(const std::string& messages, const std::string& members = "") {
    return R"({"model":"m","max_tokens":9,"messages":[)" + messages + "]" + members + "}";
  }
  static std::string Plain(const std::string& members) {
    return Body(R"({"role":"user","content":"hi"})", "," + members);
  }
  static api::GenerateRequest RequestOf(const std::string& text) {
    Result<GenerationCall> call = Parse(text);
    EXPECT_TRUE(call.ok()) << call.status() << " " << text;
    return call.ok() ? call->requests.front() : api::GenerateRequest();
  }
  static api::ChatPrompt ChatOf(const std::string& text) {
    const api::GenerateRequest request = RequestOf(text);
    const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
    return chat == nullptr ? api::ChatPrompt() : *chat;
  }
  // "role: content" of each message.
  static std::vector<std::string> PartsOf(const std::string& messages,
                                          const std::string& members = "") {
    static constexpr const char* kRoles[] = {"system", "user", "assistant", "tool"};
    std::vector<std::string> said;
    for (const api::ChatMessage& message : ChatOf(Body(messages, members)).messages)
      said.push_back(std::string(kRoles[static_cast<size_t>(message.role)]) + ": " +
                     message.content);
    return said;
  }
  static std::string Refusal(const std::string& text) {
    const Status status = Parse(text).status();
    return status.reason() + " " + status.param();
  }
};

TEST_F(MessagesRequest, ReadsTheFieldsOfTheSamplingChain) {
  const api::GenerateRequest request = RequestOf(
      Plain(R"("temperature":0.5,"top_p":0.9,"top_k":40,"stop_sequences":["a","b"],"seed":3,)"
            R"("metadata":{"user_id":"ann"},"service_tier":"standard_only")"));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.sampling.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_THAT(request.sampling.stop, ElementsAre("a", "b"));
  EXPECT_EQ(request.sampling.seed, 3);
  EXPECT_EQ(request.user, "ann");
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.priority, api::Priority::kInteractive);
  EXPECT_EQ(RequestOf(Plain(R"("service_tier":"flex")")).priority, api::Priority::kFlex);
  EXPECT_EQ(RequestOf(Plain(R"("priority":1)")).priority, api::Priority::kFlex);
}

TEST_F(MessagesRequest, RefusesWhatIsMissingOrOutOfRange) {
  EXPECT_EQ(Refusal(R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}]})"),
            "missing_required_parameter model");
  EXPECT_EQ(Refusal(R"({"model":"m","messages":[{"role":"user","content":"x"}]})"),
            "missing_required_parameter max_tokens");
  EXPECT_EQ(Refusal(R"({"model":"m","max_tokens":9})"), "missing_required_parameter messages");
  EXPECT_EQ(Refusal(Body("")), "invalid_value messages");
  EXPECT_EQ(Refusal(Plain(R"("temperature":1.1)")), "invalid_value temperature");
  EXPECT_EQ(Refusal(Plain(R"("stop":"a","stop_sequences":["b"])")), "invalid_value stop");
  EXPECT_EQ(Refusal(Plain(R"("min_tokens":10)")), "invalid_value min_tokens");
  EXPECT_EQ(Refusal(Plain(R"("mcp_servers":[{"type":"url"}])")),
            "unsupported_parameter mcp_servers");
  EXPECT_EQ(Refusal(Body(R"({"role":"tool","content":"x"})")), "invalid_value messages[0].role");
  EXPECT_EQ(Refusal(Body(R"({"role":"user"})")), "missing_required_parameter messages[0].content");
  EXPECT_EQ(Refusal(Body(R"({"role":"user","content":[]})")), "invalid_value messages[0].content");
}

TEST_F(MessagesRequest, SystemBecomesTheFirstMessage) {
  const std::string hi = R"({"role":"user","content":"hi"})";
  EXPECT_THAT(PartsOf(hi, R"(,"system":"be brief")"), ElementsAre("system: be brief", "user: hi"));
  const std::string blocks =
      R"(,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},)"
      R"({"type":"text","text":"b"}])";
  EXPECT_THAT(PartsOf(hi, blocks), ElementsAre("system: a\nb", "user: hi"));
  EXPECT_THAT(ChatOf(Body(hi, blocks)).messages[0].part_ends, ElementsAre(1, 3));
  EXPECT_THAT(PartsOf(hi, R"(,"system":"")"), ElementsAre("user: hi"));
  EXPECT_THAT(
      PartsOf(hi + R"(,{"role":"system","content":[{"type":"text","text":"now in verse"}]},)" + hi),
      ElementsAre("user: hi", "system: now in verse", "user: hi"));
  EXPECT_EQ(Refusal(Body(hi, R"(,"system":[{"type":"image","source":{}}])")),
            "unsupported_parameter system[0]");
}

// The same as one chat completion with content in parts: templates want the roles to alternate.
TEST_F(MessagesRequest, JoinsMessagesOfOneRole) {
  EXPECT_THAT(PartsOf(R"({"role":"user","content":"a"},{"role":"user","content":"b"},)"
                      R"({"role":"assistant","content":"c"},)"
                      R"({"role":"user","content":[{"type":"text","text":"d"},)"
                      R"({"type":"text","text":"e"}]})"),
              ElementsAre("user: a\nb", "assistant: c", "user: d\ne"));
}

TEST_F(MessagesRequest, ContinuesALastMessageOfTheAssistant) {
  const api::ChatPrompt open = ChatOf(Plain(R"("stream":true)"));
  EXPECT_TRUE(open.add_generation_prompt);
  EXPECT_FALSE(open.continue_final_message);
  const api::ChatPrompt prefilled =
      ChatOf(Body(R"({"role":"user","content":"hi"},{"role":"assistant","content":"{"})"));
  EXPECT_FALSE(prefilled.add_generation_prompt);
  EXPECT_TRUE(prefilled.continue_final_message);
  EXPECT_EQ(prefilled.messages.back().content, "{");
}

TEST_F(MessagesRequest, ToolUseAndItsResultBecomeCallsAndToolMessages) {
  const std::string history =
      R"({"role":"user","content":"weather?"},)"
      R"({"role":"assistant","content":[{"type":"text","text":"I look."},)"
      R"({"type":"tool_use","id":"toolu_1","name":"get","input":{"city":"Rome","n":1.5}},)"
      R"({"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},)"
      R"({"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"toolu_2","content":"noon"},)"
      R"({"type":"text","text":"and?"},)"
      R"({"type":"tool_result","tool_use_id":"toolu_1","is_error":true,)"
      R"("content":[{"type":"text","text":"no"},{"type":"text","text":"net"}]},)"
      R"({"type":"tool_result","tool_use_id":"other"}]})";
  EXPECT_THAT(PartsOf(history), ElementsAre("user: weather?", "assistant: I look.", "tool: noon",
                                            "tool: no\nnet", "tool: ", "user: and?"));
  const std::vector<api::ChatMessage> messages = ChatOf(Body(history)).messages;
  EXPECT_THAT(messages[1].tool_calls,
              ElementsAre(api::ToolCall{"toolu_1", "get", R"({"city":"Rome","n":1.5})"},
                          api::ToolCall{"toolu_2", "now", "{}"}));
  EXPECT_EQ(messages[2].tool_call_id, "toolu_2");
  EXPECT_EQ(messages[3].tool_call_id, "toolu_1");
  EXPECT_THAT(messages[3].part_ends, ElementsAre(2, 6));
  EXPECT_EQ(messages[4].tool_call_id, "other");
}

TEST_F(MessagesRequest, ToolResultsAreNotJoinedWithOtherMessages) {
  EXPECT_THAT(
      PartsOf(
          R"({"role":"user","content":"a"},)"
          R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b"}]},)"
          R"({"role":"user","content":"c"},{"role":"user","content":"d"})"),
      ElementsAre("user: a", "tool: b", "user: c\nd"));
}

TEST_F(MessagesRequest, ThinkingBlocksAreTheReasoningOfTheirMessage) {
  const api::ChatPrompt chat =
      ChatOf(Body(R"({"role":"user","content":"a"},)"
                  R"({"role":"assistant","content":[)"
                  R"({"type":"thinking","thinking":"hm","signature":"s"},)"
                  R"({"type":"redacted_thinking","data":"xx"},{"type":"text","text":"b"}]},)"
                  R"({"role":"user","content":"c"})"));
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[1].reasoning, "hm");
  EXPECT_EQ(chat.messages[1].content, "b");
}

TEST_F(MessagesRequest, RefusesBlocksThatNoModelReadsByTheirPath) {
  const auto block = [](const std::string& json, const char* role = "user") {
    return Body(R"({"role":"user","content":"x"},{"role":")" + std::string(role) +
                R"(","content":[{"type":"text","text":"y"},)" + json + "]}");
  };
  EXPECT_EQ(Refusal(block(R"({"type":"image","source":{"type":"base64","data":"x"}})")),
            "unsupported_parameter messages[1].content[1]");
  EXPECT_EQ(Refusal(block(R"({"type":"document"})")),
            "unsupported_parameter messages[1].content[1]");
  EXPECT_EQ(Refusal(block(R"({"type":"server_tool_use"})", "assistant")),
            "unsupported_parameter messages[1].content[1]");
  EXPECT_EQ(Refusal(block(R"({"type":"text"})")),
            "missing_required_parameter messages[1].content[1].text");
  EXPECT_EQ(Refusal(block(R"({"text":"x"})")),
            "missing_required_parameter messages[1].content[1].type");
  EXPECT_EQ(Refusal(block(R"("x")")), "invalid_value messages[1].content[1]");
  EXPECT_EQ(Refusal(block(R"({"type":"tool_use","id":"t","name":"f","input":{}})")),
            "invalid_value messages[1].content[1].type");
  EXPECT_EQ(Refusal(block(R"({"type":"tool_result","tool_use_id":"t"})", "assistant")),
            "invalid_value messages[1].content[1].type");
  EXPECT_EQ(Refusal(block(R"({"type":"tool_use","id":"t","name":"f","input":"{}"})", "assistant")),
            "invalid_value messages[1].content[1].input");
  EXPECT_EQ(Refusal(block(R"({"type":"tool_result","tool_use_id":"t","content":[)"
                          R"({"type":"text","text":"a"},{"type":"image"}]})")),
            "unsupported_parameter messages[1].content[1].content[1]");
  EXPECT_EQ(Refusal(block(R"({"type":"tool_use","id":"t","name":"f","input":{}})", "assistant")),
            "invalid_value messages[1].content")
      << "a call without its result cannot be continued";
}

TEST_F(MessagesRequest, ReadsTools) {
  const std::string tools =
      R"("tools":[{"name":"get","description":"d","input_schema":{"type":"object"}},)"
      R"({"type":"custom","name":"put","input_schema":{"type":"object","properties":{}},)"
      R"("strict":true,"cache_control":{"type":"ephemeral"}}])";
  const api::ChatPrompt chat = ChatOf(Plain(tools));
  EXPECT_THAT(chat.tools,
              ElementsAre(api::Tool{.name = "get",
                                    .description = "d",
                                    .parameters = R"({"type":"object"})",
                                    .param = "tools[0]",
                                    .schema_field = "input_schema"},
                          api::Tool{.name = "put",
                                    .parameters = R"({"type":"object","properties":{}})",
                                    .strict = true,
                                    .param = "tools[1]",
                                    .schema_field = "input_schema"}));
  EXPECT_EQ(chat.tool_choice, api::ToolChoice());
  EXPECT_TRUE(chat.parallel_tool_calls);

  using Kind = api::ToolChoice::Kind;
  const auto choice = [&](const std::string& json) {
    return ChatOf(Plain(tools + R"(,"tool_choice":)" + json));
  };
  EXPECT_EQ(choice(R"({"type":"auto"})").tool_choice.kind, Kind::kAuto);
  EXPECT_EQ(choice(R"({"type":"none"})").tool_choice.kind, Kind::kNone);
  EXPECT_EQ(choice(R"({"type":"any"})").tool_choice.kind, Kind::kRequired);
  EXPECT_EQ(choice(R"({"type":"tool","name":"put"})").tool_choice,
            (api::ToolChoice{Kind::kNamed, "put"}));
  EXPECT_FALSE(choice(R"({"type":"auto","disable_parallel_tool_use":true})").parallel_tool_calls);
}

TEST_F(MessagesRequest, RefusesToolsThatItCannotOffer) {
  EXPECT_EQ(Refusal(Plain(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])")),
            "unsupported_parameter tools[0]");
  EXPECT_EQ(Refusal(Plain(R"("tools":[{"type":"bash_20250124","name":"bash"}])")),
            "unsupported_parameter tools[0]");
  EXPECT_EQ(Refusal(Plain(R"("tools":[{"name":"f"}])")),
            "missing_required_parameter tools[0].input_schema");
  EXPECT_EQ(Refusal(Plain(R"("tools":[{"name":"a b","input_schema":{}}])")),
            "invalid_value tools[0].name");
  EXPECT_EQ(Refusal(Plain(R"("tool_choice":{"type":"any"})")), "invalid_value tool_choice");
  const std::string tools = R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":)";
  EXPECT_EQ(Refusal(Plain(tools + R"({"type":"tool"})")),
            "missing_required_parameter tool_choice.name");
  EXPECT_EQ(Refusal(Plain(tools + R"({"type":"tool","name":"g"})")),
            "invalid_value tool_choice.name");
  EXPECT_TRUE(Parse(Plain(R"("tools":[],"tool_choice":{"type":"none"})")).ok());
}

TEST_F(MessagesRequest, ThinkingIsAnOptionOfTheTemplate) {
  const auto arguments = [](const std::string& members) {
    return ChatOf(Plain(members)).template_arguments;
  };
  EXPECT_EQ(arguments(R"("stream":false)"), "");
  EXPECT_EQ(arguments(R"("thinking":{"type":"enabled","budget_tokens":1024})"),
            R"({"enable_thinking":true})");
  EXPECT_EQ(arguments(R"("thinking":{"type":"disabled"})"), R"({"enable_thinking":false})");
  EXPECT_EQ(arguments(R"("thinking":{"type":"adaptive"})"), "");
  EXPECT_EQ(arguments(R"("output_config":{"effort":"low"})"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"("output_config":{"effort":"high"})"), "") << "Anthropic's default";
  EXPECT_EQ(arguments(R"("thinking":{"type":"enabled"},"enable_thinking":false)"),
            R"({"enable_thinking":false})")
      << "the option itself is the more exact word";
  EXPECT_EQ(Refusal(Plain(R"("thinking":{"type":"always"})")), "invalid_value thinking.type");
}

TEST_F(MessagesRequest, OutputFormatConstrainsTheAnswer) {
  for (const char* const form :
       {R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})",
        R"("output_format":{"type":"json_schema","schema":{"type":"object"}})"}) {
    const api::GenerateRequest request = RequestOf(Plain(form));
    ASSERT_TRUE(request.constraint.has_value()) << form;
    EXPECT_EQ(request.constraint->kind, api::Constraint::Kind::kJsonSchema);
    EXPECT_EQ(request.constraint->text, R"({"type":"object"})");
    EXPECT_THAT(request.constraint->param, HasSubstr("schema"));
  }
  EXPECT_EQ(Refusal(Plain(R"("output_config":{"format":{"type":"json_schema"}})")),
            "missing_required_parameter output_config.format.schema");
  EXPECT_EQ(Refusal(Plain(R"("output_config":{"format":{"type":"xml"}})")),
            "unsupported_parameter output_config.format.type");
  EXPECT_EQ(Refusal(Plain(R"("response_format":{"type":"json_object"})")),
            "unsupported_parameter response_format");
}

TEST_F(MessagesRequest, UnknownFieldsAreNamedByTheirPath) {
  const Result<GenerationCall> call = Parse(
      Body(R"({"role":"user","content":[{"type":"text","text":"a","x":1}],"y":2})", R"(,"z":3)"));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->ignored, ElementsAre("z", "messages[0].y", "messages[0].content[0].x"));
  ParseOptions strict;
  strict.strict = true;
  EXPECT_EQ(Parse(Plain(R"("z":3)"), strict).status().param(), "z");
}

TEST_F(MessagesRequest, CountTokensReadsTheSameDialog) {
  const std::string messages = R"({"role":"user","content":"a"},{"role":"user","content":"b"})";
  const std::string members =
      R"(,"system":"s","tools":[{"name":"f","input_schema":{"type":"object"}}],)"
      R"("thinking":{"type":"enabled","budget_tokens":1024})";
  const JsonDocument body =
      ParseJson(R"({"model":"m","messages":[)" + messages + "]" + members + "}").value();
  const Result<CountTokensCall> count = ParseCountTokens(body.root(), {});
  ASSERT_TRUE(count.ok()) << count.status();
  const auto& counted = std::get<api::ChatPrompt>(count->request.prompt);
  const api::ChatPrompt asked = ChatOf(Body(messages, members));
  EXPECT_EQ(count->request.model, "m");
  ASSERT_EQ(counted.messages.size(), 2u);
  EXPECT_EQ(counted.messages[1].content, asked.messages[1].content);
  EXPECT_EQ(counted.tools, asked.tools);
  EXPECT_EQ(counted.template_arguments, asked.template_arguments);
  api::TokenizeResult result;
  result.tokens = {1, 2, 3};
  EXPECT_EQ(CountTokensBody(result), R"({"input_tokens":3})");
}

}  // namespace
}  // namespace tutti::protocol
