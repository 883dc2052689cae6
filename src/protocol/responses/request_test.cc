#include "protocol/responses/request.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

using std::chrono::milliseconds;

Result<ResponsesCall> Parse(const std::string& json, const ParseOptions& options = {}) {
  const Result<JsonDocument> body = ParseJson(json);
  EXPECT_TRUE(body.ok()) << body.status() << ": " << json;
  return ParseResponses(body->root(), options);
}

// The base of a call with one more member.
Result<ResponsesCall> With(const std::string& member, const ParseOptions& options = {}) {
  return Parse(R"({"model":"m","input":"x",)" + member + "}", options);
}

Status Refusal(const std::string& member) { return With(member).status(); }

const std::vector<api::ChatMessage>& Messages(const ResponsesCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompt).messages;
}

TEST(ParseResponses, ATextIsOneMessageOfTheUser) {
  const ResponsesCall call = Parse(R"({"model":"m","input":"Hi"})").value();
  EXPECT_EQ(call.model, "m");
  EXPECT_EQ(call.request.model, "m");
  EXPECT_EQ(call.input, (std::vector<InputItem>{{api::Role::kUser, "Hi"}}));
  ASSERT_EQ(Messages(call).size(), 1u);
  EXPECT_EQ(Messages(call)[0].content, "Hi");
  EXPECT_TRUE(std::get<api::ChatPrompt>(call.request.prompt).add_generation_prompt);
  EXPECT_TRUE(call.store);
  EXPECT_FALSE(call.background || call.stream || call.truncate || call.obfuscation);
  EXPECT_EQ(call.request.sampling.temperature, 1.0);
  EXPECT_FALSE(call.request.sampling.max_tokens.has_value()) << "the rest of the context";
  EXPECT_FALSE(call.instructions.has_value());
  EXPECT_TRUE(call.ignored.empty());
}

TEST(ParseResponses, InstructionsStandBeforeTheInputAndAreNoItem) {
  const ResponsesCall call = With(R"("instructions":"Be brief.")").value();
  ASSERT_EQ(Messages(call).size(), 2u);
  EXPECT_EQ(Messages(call)[0].role, api::Role::kSystem);
  EXPECT_EQ(Messages(call)[0].content, "Be brief.");
  EXPECT_EQ(call.input.size(), 1u);
  EXPECT_EQ(call.instructions, "Be brief.");
}

TEST(ParseResponses, ItemsMayHaveTextsOrPartsAndAnyRole) {
  const ResponsesCall call = Parse(R"({"model":"m","input":[
      {"role":"developer","content":"d"},
      {"type":"message","role":"system","content":[{"type":"input_text","text":"s"}]},
      {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
      {"id":"msg_1","type":"message","role":"assistant","status":"completed",
       "content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},
      {"role":"user","content":""}]})")
                                 .value();
  EXPECT_EQ(call.input, (std::vector<InputItem>{{api::Role::kSystem, "d"},
                                                {api::Role::kSystem, "s"},
                                                {api::Role::kUser, "a\nb", {1, 3}},
                                                {api::Role::kAssistant, "c"},
                                                {api::Role::kUser, ""}}));
  EXPECT_EQ(Messages(call).size(), 5u);
  EXPECT_TRUE(call.ignored.empty());
}

TEST(ParseResponses, OtherKindsOfItemsAreRefusedByName) {
  for (const char* type : {"item_reference", "compaction", "computer_call", "custom_tool_call",
                           "custom_tool_call_output", "web_search_call", "nonsense"}) {
    const Status status = Parse(R"({"model":"m","input":[{"role":"user","content":"x"},{"type":")" +
                                std::string(type) + R"(","id":"i","call_id":"c","output":"o"}]})")
                              .status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << type;
    EXPECT_EQ(status.param(), "input[1]") << type;
    EXPECT_NE(status.message().find(type), std::string::npos) << status;
  }
}

TEST(ParseResponses, OtherKindsOfPartsAreRefusedByName) {
  for (const char* part :
       {R"({"type":"input_image","image_url":"data:"})", R"({"type":"input_file","file_id":"f"})",
        R"({"type":"input_audio"})", R"({"type":"refusal","refusal":"no"})"}) {
    const Status status =
        Parse(R"({"model":"m","input":[{"role":"user","content":[)" + std::string(part) + "]}]}")
            .status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << part;
    EXPECT_EQ(status.param(), "input[0].content[0]");
  }
}

TEST(ParseResponses, AnInputOfNothingIsAnEmptyPrompt) {
  for (
      const char* input :
      {R"("")", "[]", R"([{"role":"user","content":""}])",
       R"([{"role":"system","content":""},{"role":"user","content":[{"type":"input_text","text":""}]}])"}) {
    const Status status = Parse(R"({"model":"m","input":)" + std::string(input) + "}").status();
    EXPECT_EQ(status.reason(), "empty_prompt") << input;
    EXPECT_EQ(status.param(), "input");
  }
  for (const char* input : {"1", "true", "{}", R"({"role":"user","content":"x"})"}) {
    const Status status = Parse(R"({"model":"m","input":)" + std::string(input) + "}").status();
    EXPECT_EQ(status.reason(), "invalid_value") << input;
    EXPECT_EQ(status.param(), "input");
  }
  EXPECT_EQ(Parse(R"({"model":"m"})").status().reason(), "missing_required_parameter");
}

TEST(ParseResponses, ALastItemOfTheAssistantsIsAnswered) {
  const auto call = Parse(R"({"model":"m","input":[{"role":"user","content":"a"},
      {"role":"assistant","content":"b"}]})");
  ASSERT_TRUE(call.ok()) << call.status();
  const auto& prompt = std::get<api::ChatPrompt>(call->request.prompt);
  EXPECT_EQ(prompt.messages.back().role, api::Role::kAssistant);
  EXPECT_TRUE(prompt.add_generation_prompt);
}

TEST(ParseResponses, FaultsOfItemsSayWhichItem) {
  const auto refusal = [](const std::string& item) {
    return Parse(R"({"model":"m","input":[)" + item + "]}").status();
  };
  EXPECT_EQ(refusal(R"({"role":"tool","content":"x"})").param(), "input[0].role");
  EXPECT_EQ(refusal(R"({"content":"x"})").param(), "input[0].role");
  EXPECT_EQ(refusal(R"({"role":"user"})").param(), "input[0].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":null})").param(), "input[0].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":5})").param(), "input[0].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":[]})").param(), "input[0].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":["x"]})").param(), "input[0].content[0]");
  EXPECT_EQ(refusal(R"({"role":"user","content":[{"type":"input_text"}]})").param(),
            "input[0].content[0].text");
  EXPECT_EQ(refusal(R"({"role":"user","content":[{"text":"x"}]})").param(),
            "input[0].content[0].type");
  EXPECT_EQ(refusal(R"("x")").param(), "input[0]");
  EXPECT_EQ(refusal("null").param(), "input[0]");
}

TEST(ParseResponses, ListsOfItemsAreBounded) {
  JsonArray items(2048, Json{{"role", "user"}, {"content", "x"}});
  Json body{{"model", "m"}, {"input", items}};
  EXPECT_TRUE(ParseResponses(body, {}).ok());
  items.push_back(Json(items[0]));
  body.as_object()["input"] = items;
  EXPECT_EQ(ParseResponses(body, {}).status().param(), "input");
}

TEST(ParseResponses, ADialogIsNamedInOneWay) {
  EXPECT_EQ(With(R"("conversation":"conv_1")")->conversation, "conv_1");
  EXPECT_EQ(With(R"("conversation":{"id":"conv_1"})")->conversation, "conv_1");
  EXPECT_EQ(With(R"("previous_response_id":"resp_1")")->previous_response_id, "resp_1");
  EXPECT_EQ(Refusal(R"("conversation":"c","previous_response_id":"r")").param(),
            "previous_response_id");
  for (const char* value : {"\"\"", "5", "[]", "true"})
    EXPECT_EQ(Refusal(R"("conversation":)" + std::string(value)).param(), "conversation") << value;
  EXPECT_EQ(Refusal(R"("conversation":{"id":5})").param(), "conversation.id");
  EXPECT_EQ(Refusal(R"("conversation":{})").param(), "conversation.id");
  EXPECT_EQ(Refusal(R"("conversation":")" + std::string(257, 'c') + "\"").param(), "conversation");
}

TEST(ParseResponses, ATurnCarriesItsPolicyItsIdAndWhatItExpects) {
  const ResponsesCall call =
      With(R"("id":"uuid","policy":"rollback","conversation":"c","expected_last_item_id":"msg_9")")
          .value();
  EXPECT_EQ(call.message_id, "uuid");
  EXPECT_EQ(call.policy, "rollback");
  EXPECT_EQ(call.expected_last_item_id, "msg_9");
  for (const char* policy : {"enqueue", "reject", "interrupt", "rollback", "steer"})
    EXPECT_EQ(With(R"("policy":")" + std::string(policy) + "\"")->policy, policy);
  EXPECT_EQ(Refusal(R"("policy":"skip")").param(), "policy");
  EXPECT_EQ(Refusal(R"("expected_last_item_id":"msg_9")").param(), "expected_last_item_id");
}

TEST(ParseResponses, BackgroundNeedsStore) {
  EXPECT_TRUE(With(R"("background":true)")->background);
  EXPECT_FALSE(With(R"("store":false)")->store);
  const Status status = Refusal(R"("background":true,"store":false)");
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "background");
}

TEST(ParseResponses, SamplingIsThatOfTheOtherRoutes) {
  const api::SamplingParams params =
      With(R"("temperature":0,"top_p":0.5,"seed":7,"stop":["a"],"top_k":3,"max_output_tokens":16,)"
           R"("min_tokens":2,"logit_bias":{"5":-100})")
          ->request.sampling;
  EXPECT_EQ(params.temperature, 0.0);
  EXPECT_EQ(params.top_p, 0.5);
  EXPECT_EQ(params.seed, 7);
  EXPECT_EQ(params.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(params.top_k, 3);
  EXPECT_EQ(params.max_tokens, 16);
  EXPECT_EQ(params.min_tokens, 2);
  EXPECT_EQ(params.logit_bias.size(), 1u);
}

TEST(ParseResponses, AnAnswerHasAtLeastSixteenTokensToGo) {
  EXPECT_TRUE(With(R"("max_output_tokens":16)").ok());
  EXPECT_EQ(Refusal(R"("max_output_tokens":15)").param(), "max_output_tokens");
  EXPECT_EQ(Refusal(R"("min_tokens":20,"max_output_tokens":16)").param(), "min_tokens");
  const Status other = Refusal(R"("max_tokens":100)");
  EXPECT_EQ(other.reason(), "unsupported_parameter");
  EXPECT_NE(other.message().find("max_output_tokens"), std::string::npos);
}

TEST(ParseResponses, MetadataIsBoundedAsOpenAiHasIt) {
  const auto pairs = [](size_t count, size_t key, size_t value, const std::string& unit) {
    std::string text = "\"metadata\":{";
    for (size_t i = 0; i < count; ++i) {
      std::string name = std::to_string(i);
      while (name.size() < key) name += 'k';
      std::string content;
      for (size_t n = 0; n < value; ++n) content += unit;
      text += (i > 0 ? ",\"" : "\"") + name + "\":\"" + content + "\"";
    }
    return text + "}";
  };
  EXPECT_EQ(With(pairs(16, 64, 512, "v"))->metadata.size(), 16u);
  EXPECT_TRUE(With(pairs(1, 1, 512, "\xC3\xA9")).ok()) << "characters, not bytes";
  EXPECT_EQ(Refusal(pairs(17, 2, 1, "v")).param(), "metadata");
  EXPECT_EQ(Refusal(pairs(1, 65, 1, "v")).param(), "metadata");
  EXPECT_EQ(Refusal(pairs(1, 1, 513, "v")).param(), "metadata.0");
  EXPECT_EQ(Refusal(R"("metadata":{"a":1})").param(), "metadata.a");
  EXPECT_EQ(Refusal(R"("metadata":{"a":null})").param(), "metadata.a");
  const Metadata ordered = With(R"("metadata":{"z":"1","a":"2"})")->metadata;
  EXPECT_EQ(ordered, (Metadata{{"z", "1"}, {"a", "2"}}));
}

const api::ChatPrompt& PromptOf(const ResponsesCall& call) {
  return std::get<api::ChatPrompt>(call.request.prompt);
}

TEST(ParseResponses, ReadsToolsInTheirFlatForm) {
  const Result<ResponsesCall> call =
      With(R"("tools":[{"type":"function","name":"f","parameters":{"b":1,"a":2},"strict":true,)"
           R"("description":"d"},{"type":"function","name":"g","parameters":null,"strict":null}],)"
           R"("tool_choice":{"type":"function","name":"g"},"parallel_tool_calls":false)");
  ASSERT_TRUE(call.ok()) << call.status();
  const api::ChatPrompt& prompt = PromptOf(*call);
  EXPECT_EQ(prompt.tools, std::vector<api::Tool>({{.name = "f",
                                                   .description = "d",
                                                   .parameters = R"({"b":1,"a":2})",
                                                   .strict = true,
                                                   .param = "tools[0]"},
                                                  {.name = "g", .param = "tools[1]"}}));
  EXPECT_EQ(prompt.tool_choice, (api::ToolChoice{api::ToolChoice::Kind::kNamed, "g"}));
  EXPECT_FALSE(prompt.parallel_tool_calls);
}

TEST(ParseResponses, AcceptsToolFieldsThatAskForNothing) {
  EXPECT_TRUE(With(R"("tools":[],"tool_choice":"auto","parallel_tool_calls":true)").ok());
  EXPECT_TRUE(With(R"("tool_choice":"none","parallel_tool_calls":false,"max_tool_calls":3)").ok());
}

TEST(ParseResponses, RefusesToolsByPath) {
  EXPECT_EQ(Refusal(R"("tool_choice":"required")").param(), "tool_choice");
  EXPECT_EQ(Refusal(R"("tools":[{"type":"function","function":{"name":"f"}}])").param(),
            "tools[0].name");
  EXPECT_EQ(Refusal(R"("tools":[{"type":"function","name":"f","parameters":1}])").param(),
            "tools[0].parameters");
  for (const char* type : {"web_search", "file_search", "custom", "mcp", "code_interpreter"}) {
    const Status status = Refusal(R"("tools":[{"type":")" + std::string(type) + "\"}]");
    EXPECT_EQ(status.reason(), "unsupported_parameter") << type;
    EXPECT_EQ(status.param(), "tools[0]");
  }
  const Status allowed =
      Refusal(R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools",)"
              R"("mode":"auto","tools":[]})");
  EXPECT_EQ(allowed.reason(), "unsupported_parameter");
  EXPECT_EQ(allowed.param(), "tool_choice");
}

TEST(ParseResponses, ReadsCallsTheirOutputsAndReasoning) {
  const Result<ResponsesCall> call = Parse(
      R"({"model":"m","input":[{"role":"user","content":"x"},)"
      R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":"f",)"
      R"("arguments":"{\"a\":1}"},)"
      R"({"type":"function_call","call_id":"call_2","name":"g","arguments":""},)"
      R"({"type":"function_call_output","call_id":"call_1","output":"42"},)"
      R"({"type":"function_call_output","id":"fco_1","call_id":"call_2","output":)"
      R"([{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},)"
      R"({"type":"reasoning","summary":[],"encrypted_content":"x"}]})");
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->input.size(), 6u) << "what is encrypted alone is left out";
  const auto& messages = PromptOf(*call).messages;
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(messages[1].role, api::Role::kAssistant);
  EXPECT_EQ(messages[1].content, "");
  EXPECT_EQ(messages[1].reasoning, "hm");
  EXPECT_EQ(ItemIdPrefix(messages[1]), "rs_");
  EXPECT_TRUE(messages[1].tool_calls.empty());
  EXPECT_EQ(messages[2].tool_calls, std::vector<api::ToolCall>({{"call_1", "f", R"({"a":1})"}}));
  EXPECT_EQ(messages[2].reasoning, "");
  EXPECT_EQ(ItemIdPrefix(messages[2]), "fc_");
  EXPECT_EQ(messages[3].tool_calls, std::vector<api::ToolCall>({{"call_2", "g", "{}"}}));
  EXPECT_EQ(messages[4].role, api::Role::kTool);
  EXPECT_EQ(messages[4].tool_call_id, "call_1");
  EXPECT_EQ(messages[4].content, "42");
  EXPECT_EQ(messages[5].content, "a\nb");
}

TEST(ParseResponses, AnOutputAloneIsNoEmptyInput) {
  EXPECT_TRUE(Parse(R"({"model":"m","previous_response_id":"r","input":[)"
                    R"({"type":"function_call_output","call_id":"c","output":""}]})")
                  .ok());
  EXPECT_EQ(Parse(R"({"model":"m","input":[{"type":"reasoning","summary":[]}]})").status().reason(),
            "empty_prompt");
}

TEST(ParseResponses, RefusesCallsByPath) {
  const auto refusal = [](const std::string& item) {
    return Parse(R"({"model":"m","input":[)" + item + "]}").status();
  };
  EXPECT_EQ(refusal(R"({"type":"function_call","name":"f"})").param(), "input[0].call_id");
  EXPECT_EQ(refusal(R"({"type":"function_call","call_id":"c"})").param(), "input[0].name");
  EXPECT_EQ(refusal(R"({"type":"function_call","call_id":"c","name":"f","arguments":1})").param(),
            "input[0].arguments");
  EXPECT_TRUE(
      refusal(R"({"type":"function_call","call_id":"c","name":"f","arguments":"{\"a"})").ok())
      << "cut by its length";
  EXPECT_EQ(refusal(R"({"type":"function_call_output","call_id":"c"})").param(), "input[0].output");
  EXPECT_EQ(refusal(R"({"type":"function_call_output","call_id":"c","output":[)"
                    R"({"type":"input_image","image_url":"x"}]})")
                .reason(),
            "unsupported_parameter");
  EXPECT_EQ(refusal(R"({"type":"custom_tool_call","call_id":"c","name":"f","input":""})").param(),
            "input[0]");
  EXPECT_EQ(
      refusal(R"({"type":"reasoning","summary":[],"content":[{"type":"x","text":""}]})").param(),
      "input[0].content[0]");
}

TEST(ParseResponses, FormAndReasoningAreAcceptedOnlyWhereTheyAskForNothing) {
  EXPECT_TRUE(With(R"("text":{"format":{"type":"text"},"verbosity":"medium"})").ok());
  EXPECT_TRUE(With(R"("text":null,"reasoning":{"effort":null,"summary":null})").ok());
  EXPECT_TRUE(With(R"("reasoning":{"summary":"auto"})").ok());
  EXPECT_EQ(Refusal(R"("text":{"format":{"type":"xml"}})").param(), "text.format.type");
  EXPECT_EQ(Refusal(R"("text":{"verbosity":"low"})").param(), "text.verbosity");
  EXPECT_TRUE(With(R"("reasoning":{"effort":"high"})").ok()) << "the template's to take";
  EXPECT_EQ(Refusal(R"("reasoning":{"effort":"loud"})").param(), "reasoning.effort");
  EXPECT_EQ(Refusal(R"("text":"text")").param(), "text");
  EXPECT_EQ(Refusal(R"("reasoning":"high")").param(), "reasoning");
}

TEST(ParseResponses, IncludeSelectsLogprobs) {
  const auto logprobs = [](const std::string& members) {
    const Result<ResponsesCall> call = With(members);
    EXPECT_TRUE(call.ok()) << call.status();
    return call.ok() ? call->request.sampling.logprobs : -2;
  };
  EXPECT_EQ(logprobs(R"("include":["message.output_text.logprobs"])"), 0);
  EXPECT_EQ(logprobs(R"("include":["message.output_text.logprobs"],"top_logprobs":20)"), 20);
  EXPECT_EQ(logprobs(R"("include":["reasoning.encrypted_content"])"), -1);
  EXPECT_EQ(logprobs(R"("top_logprobs":0)"), -1);
  EXPECT_EQ(Refusal(R"("top_logprobs":2)").param(), "top_logprobs") << "without include";
  EXPECT_EQ(Refusal(R"("include":["message.output_text.logprobs"],"top_logprobs":21)").param(),
            "top_logprobs");
}

TEST(ParseResponses, IncludeTakesWordsThatNoAnswerHereHasAndRefusesTheRest) {
  EXPECT_TRUE(With(R"("include":[])").ok());
  EXPECT_TRUE(With(R"("include":["reasoning.encrypted_content","file_search_call.results"])").ok());
  EXPECT_EQ(Refusal(R"("include":["reasoning.encrypted_content","what"])").param(), "include[1]");
  EXPECT_EQ(Refusal(R"("include":[5])").param(), "include[0]");
  EXPECT_EQ(Refusal(R"("include":"x")").param(), "include");
}

TEST(ParseResponses, StreamOptionsNeedAStream) {
  const ResponsesCall call =
      With(R"("stream":true,"stream_options":{"include_obfuscation":true})").value();
  EXPECT_TRUE(call.stream && call.obfuscation);
  EXPECT_EQ(Refusal(R"("stream_options":{"include_obfuscation":true})").param(), "stream_options");
  EXPECT_EQ(Refusal(R"("stream":true,"stream_options":{"include_obfuscation":1})").param(),
            "stream_options.include_obfuscation");
}

TEST(ParseResponses, TruncationIsAutoOrDisabled) {
  EXPECT_TRUE(With(R"("truncation":"auto")")->truncate);
  EXPECT_FALSE(With(R"("truncation":"disabled")")->truncate);
  EXPECT_EQ(Refusal(R"("truncation":"left")").param(), "truncation");
}

TEST(ParseResponses, TheLongestPromptIsACountOfTokens) {
  EXPECT_EQ(With(R"("max_prompt_tokens":8192)")->max_prompt_tokens, 8192);
  EXPECT_FALSE(With(R"("truncation":"auto")")->max_prompt_tokens.has_value());
  EXPECT_EQ(Refusal(R"("max_prompt_tokens":0)").param(), "max_prompt_tokens");
  EXPECT_EQ(Refusal(R"("max_prompt_tokens":"all")").param(), "max_prompt_tokens");
}

TEST(ParseResponses, WhenAndWhereIsReadAsOnTheOtherRoutes) {
  ParseOptions options;
  options.now = TimePoint(milliseconds(1000));
  const ResponsesCall call =
      With(R"("deadline_ms":500,"service_tier":"flex","request_id":"r-1","cache":"bypass",)"
           R"("cache_salt":"s")",
           options)
          .value();
  EXPECT_EQ(call.request.deadline, TimePoint(milliseconds(1500)));
  EXPECT_EQ(call.request.priority, api::Priority::kFlex);
  EXPECT_EQ(call.service_tier, "flex");
  EXPECT_EQ(call.request.request_id, "r-1");
  EXPECT_FALSE(call.request.use_prefix_cache);
  EXPECT_EQ(call.request.cache_salt, "s");
}

TEST(ParseResponses, UnknownFieldsAreToldOrInStrictModeRefused) {
  const std::string body =
      R"({"model":"m","input":[{"role":"user","content":"x","x":1}],"y":2,"text":{"z":3}})";
  EXPECT_EQ(Parse(body)->ignored, (std::vector<std::string>{"y", "input[0].x", "text.z"}));
  ParseOptions strict;
  strict.strict = true;
  EXPECT_EQ(Parse(body, strict).status().reason(), "unknown_parameter");
}

// The fields that openai-python's types have for a request, each at a value that it may well send.
TEST(ParseResponses, EveryFieldOfTheOfficialClientIsKnown) {
  ParseOptions strict;
  strict.strict = true;
  for (const char* member : {R"("background":null)",
                             R"("context_management":[])",
                             R"("moderation":null)",
                             R"("background_options":{})",
                             R"("access_programs":{})",
                             R"("image":{})",
                             R"("prompt_cache_options":{"mode":"implicit"})",
                             R"("reasoning":{"context":"auto","mode":"standard"})",
                             R"("conversation":null)",
                             R"("include":null)",
                             R"("instructions":null)",
                             R"("max_output_tokens":null)",
                             R"("max_tool_calls":null)",
                             R"("metadata":{})",
                             R"("parallel_tool_calls":true)",
                             R"("previous_response_id":null)",
                             R"("prompt":null)",
                             R"("prompt_cache_key":"k")",
                             R"("prompt_cache_retention":"24h")",
                             R"("reasoning":{})",
                             R"("safety_identifier":"s")",
                             R"("service_tier":"auto")",
                             R"("store":true)",
                             R"("stream":false)",
                             R"("stream_options":null)",
                             R"("temperature":1)",
                             R"("text":{"format":{"type":"text"}})",
                             R"("tool_choice":"auto")",
                             R"("tools":[])",
                             R"("top_logprobs":0)",
                             R"("top_p":1)",
                             R"("truncation":"disabled")",
                             R"("user":"u")"}) {
    const Result<ResponsesCall> call = With(member, strict);
    EXPECT_TRUE(call.ok()) << member << ": " << call.status();
  }
}

}  // namespace
}  // namespace tutti::protocol
