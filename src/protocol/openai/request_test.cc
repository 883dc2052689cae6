#include "protocol/openai/request.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace tutti::protocol {
namespace {

Result<GenerationCall> Parse(Dialect dialect, const std::string& text) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(text));
  return ParseGeneration(dialect, document.root(), {});
}
Result<GenerationCall> Chat(const std::string& more,
                            const std::string& messages = R"([{"role":"user","content":"hi"}])") {
  return Parse(Dialect::kChat,
               R"({"model":"m","messages":)" + messages + (more.empty() ? "" : "," + more) + "}");
}
Result<GenerationCall> Text(const std::string& more, const std::string& prompt = "\"hi\"") {
  return Parse(Dialect::kText,
               R"({"model":"m","prompt":)" + prompt + (more.empty() ? "" : "," + more) + "}");
}
const api::ChatPrompt& Prompt(const Result<GenerationCall>& call) {
  return std::get<api::ChatPrompt>(call->requests.front().prompt);
}

TEST(ChatRequest, DefaultsAreThoseOfTheInterface) {
  const GenerationCall call = Chat("").value();
  const api::SamplingParams& p = call.requests.front().sampling;
  EXPECT_EQ(p.temperature, 1.0);
  EXPECT_EQ(p.top_p, 1.0);
  EXPECT_FALSE(p.max_tokens.has_value()) << "chat: the rest of the context";
  EXPECT_FALSE(p.seed.has_value());
  EXPECT_EQ(p.logprobs, -1);
  EXPECT_EQ(call.requests.front().n, 1);
  EXPECT_FALSE(call.stream);
  EXPECT_TRUE(Prompt(Chat("")).add_generation_prompt);
  EXPECT_EQ(call.service_tier, "default");
}

TEST(ChatRequest, EveryHonouredFieldReachesTheRequest) {
  const Result<GenerationCall> call = Chat(
      R"("max_completion_tokens":9,"max_tokens":9,"temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"frequency_penalty":-1.5,
      "presence_penalty":1.5,"repetition_penalty":1.25,"logit_bias":{"5":-100,"6":2.5},"stop":["a","b"],"seed":-3,"n":2,
      "logprobs":true,"top_logprobs":4,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,
      "include_obfuscation":true},"min_tokens":2,"ignore_eos":true,"stop_token_ids":[1,2],"include_stop_str_in_output":true,
      "allowed_token_ids":[3,4],"skip_special_tokens":false,"truncate_prompt_tokens":33,"service_tier":"flex","deadline_ms":1500,
      "request_id":"r-1","cache_salt":"salt","cache":"bypass","timings":true)");
  ASSERT_TRUE(call.ok()) << call.status();
  const api::GenerateRequest& r = call->requests.front();
  const api::SamplingParams& p = r.sampling;
  EXPECT_EQ(p.max_tokens, 9);
  EXPECT_EQ(p.temperature, 0.0);
  EXPECT_EQ(p.top_p, 0.5);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.min_p, 0.25);
  EXPECT_EQ(p.frequency_penalty, -1.5);
  EXPECT_EQ(p.presence_penalty, 1.5);
  EXPECT_EQ(p.repetition_penalty, 1.25);
  EXPECT_EQ(p.logit_bias, (std::vector<std::pair<TokenId, float>>{{5, -100.0f}, {6, 2.5f}}));
  EXPECT_EQ(p.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.seed, -3);
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(p.logprobs, 4);
  EXPECT_TRUE(call->stream && call->include_usage && call->continuous_usage && call->obfuscation);
  EXPECT_EQ(p.min_tokens, 2);
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(p.stop_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(p.include_stop_in_output);
  EXPECT_EQ(p.allowed_token_ids, (std::vector<TokenId>{3, 4}));
  EXPECT_FALSE(p.skip_special_tokens);
  EXPECT_EQ(r.truncate_prompt_tokens, 33);
  EXPECT_EQ(r.priority, api::Priority::kFlex);
  EXPECT_EQ(call->service_tier, "flex");
  EXPECT_EQ(r.deadline, TimePoint{} + std::chrono::milliseconds(1500));
  EXPECT_EQ(r.request_id, "r-1");
  EXPECT_EQ(r.cache_salt, "salt");
  EXPECT_FALSE(r.use_prefix_cache);
  EXPECT_TRUE(call->timings);
}

TEST(ChatRequest, PartsAreJoinedWithALineBreakAndRolesMapped) {
  const auto call =
      Chat("", R"([{"role":"developer","content":"be brief"},{"role":"user","name":"ann",
      "content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":"x","refusal":null,"tool_calls":[]},
      {"role":"tool","tool_call_id":"t1","content":"42"},{"role":"user","content":""}])");
  ASSERT_TRUE(call.ok()) << call.status();
  const auto& messages = Prompt(call).messages;
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].role, api::Role::kSystem);
  EXPECT_EQ(messages[1].content, "a\nb");
  EXPECT_EQ(messages[1].name, "ann");
  EXPECT_EQ(messages[2].role, api::Role::kAssistant);
  EXPECT_EQ(messages[3].role, api::Role::kTool);
  EXPECT_EQ(messages[4].content, "");
}

TEST(ChatRequest, APredictionIsATextOrItsPartsAndOfChatsAlone) {
  EXPECT_EQ(Chat("").value().requests.front().prediction, "");
  EXPECT_EQ(Chat(R"("prediction":null)").value().requests.front().prediction, "");
  EXPECT_EQ(Chat(R"("prediction":{"type":"content","content":"int a;"})")
                .value()
                .requests.front()
                .prediction,
            "int a;");
  EXPECT_EQ(
      Chat(
          R"("prediction":{"type":"content","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})")
          .value()
          .requests.front()
          .prediction,
      "a\nb");
  const Status completions = Text(R"("prediction":{"type":"content","content":"x"})").status();
  EXPECT_TRUE(completions.ok()) << "not in that table: ignored, and named in a header";
}

struct BadCase {
  const char* more;
  const char* messages;
  const char* code;
  const char* param;
};

TEST(ChatRequest, HostileMessagesAndFieldsAreRefusedByName) {
  const char* user = R"([{"role":"user","content":"x"}])";
  const std::vector<BadCase> cases = {
      {"", "[]", "invalid_value", "messages"},
      {"", "null", "missing_required_parameter", "messages"},
      {"", "\"hi\"", "invalid_value", "messages"},
      {"", "[1]", "invalid_value", "messages[0]"},
      {"", "[{}]", "missing_required_parameter", "messages[0].role"},
      {"", R"([{"role":"god","content":"x"}])", "invalid_value", "messages[0].role"},
      {"", R"([{"role":"user"}])", "missing_required_parameter", "messages[0].content"},
      {"", R"([{"role":"user","content":null}])", "missing_required_parameter",
       "messages[0].content"},
      {"", R"([{"role":"user","content":7}])", "invalid_value", "messages[0].content"},
      {"", R"([{"role":"user","content":[]}])", "invalid_value", "messages[0].content"},
      {"", R"([{"role":"user","content":[{"type":"text"}]}])", "missing_required_parameter",
       "messages[0].content[0].text"},
      {"", R"([{"role":"user","content":[{"text":"x"}]}])", "missing_required_parameter",
       "messages[0].content[0].type"},
      {"", R"([{"role":"user","content":[{"type":"text","text":1}]}])", "invalid_value",
       "messages[0].content[0].text"},
      {"",
       R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254"}}]}])",
       "unsupported_parameter", "messages[0].content[0]"},
      {"", R"([{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}])",
       "unsupported_parameter", "messages[0].content[0]"},
      {"", R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}])",
       "missing_required_parameter", "messages[0].tool_calls[0].function"},
      {"", R"([{"role":"tool","content":"x"}])", "missing_required_parameter",
       "messages[0].tool_call_id"},
      {R"("continue_final_message":true)", user, "invalid_value", "messages[0].role"},
      {R"("continue_final_message":true,"add_generation_prompt":true)",
       R"([{"role":"assistant","content":"y"}])", "invalid_value", "continue_final_message"},
      {R"("max_tokens":5,"max_completion_tokens":6)", user, "invalid_value",
       "max_completion_tokens"},
      {R"("max_tokens":0)", user, "invalid_value", "max_tokens"},
      {R"("max_tokens":-1)", user, "invalid_value", "max_tokens"},
      {R"("max_tokens":1.5)", user, "invalid_value", "max_tokens"},
      {R"("max_tokens":"10")", user, "invalid_value", "max_tokens"},
      {R"("max_tokens":2147483648)", user, "invalid_value", "max_tokens"},
      {R"("min_tokens":6,"max_tokens":5)", user, "invalid_value", "min_tokens"},
      {R"("n":0)", user, "invalid_value", "n"},
      {R"("n":9)", user, "invalid_value", "n"},
      {R"("n":16384)", user, "invalid_value", "n"},
      {R"("top_logprobs":3)", user, "invalid_value", "top_logprobs"},
      {R"("top_logprobs":21,"logprobs":true)", user, "invalid_value", "top_logprobs"},
      {R"("logprobs":3)", user, "invalid_value", "logprobs"},
      {R"("stream":"yes")", user, "invalid_value", "stream"},
      {R"("stream_options":{"include_usage":true})", user, "invalid_value", "stream_options"},
      {R"("stream":true,"stream_options":[])", user, "invalid_value", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", user, "invalid_value",
       "stream_options.include_usage"},
      {R"("top_p":-0.0001)", user, "invalid_value", "top_p"},
      {R"("top_p":1.0001)", user, "invalid_value", "top_p"},
      {R"("temperature":2.0001)", user, "invalid_value", "temperature"},
      {R"("frequency_penalty":2.1)", user, "invalid_value", "frequency_penalty"},
      {R"("repetition_penalty":0)", user, "invalid_value", "repetition_penalty"},
      {R"("logit_bias":{"abc":1})", user, "invalid_value", "logit_bias"},
      {R"("logit_bias":{"-1":1})", user, "token_out_of_range", "logit_bias"},
      {R"("stop_token_ids":[-1])", user, "token_out_of_range", "stop_token_ids[0]"},
      {R"("stop":[""])", user, "invalid_value", "stop[0]"},
      {R"("prompt_logprobs":-1)", user, "invalid_value", "prompt_logprobs"},
      {R"("prompt_logprobs":1,"stream":true)", user, "invalid_value", "prompt_logprobs"},
      {R"("tools":[{"type":"function"}])", user, "missing_required_parameter", "tools[0].function"},
      {R"("tool_choice":"required")", user, "invalid_value", "tool_choice"},
      {R"("response_format":{"type":"xml"})", user, "unsupported_parameter",
       "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", user, "missing_required_parameter",
       "response_format.json_schema"},
      {R"("response_format":{"type":"regex"})", user, "missing_required_parameter",
       "response_format.value"},
      {R"("response_format":{"type":"json","value":3})", user, "invalid_value",
       "response_format.value"},
      {R"("response_format":"json")", user, "invalid_value", "response_format"},
      {R"("guided_json":3)", user, "invalid_value", "guided_json"},
      {R"("guided_choice":[1])", user, "invalid_value", "guided_choice"},
      {R"("guided_regex":"a","grammar":"root ::= \"a\"")", user, "invalid_value", "grammar"},
      {R"("chat_template":"x")", user, "unsupported_parameter", "chat_template"},
      {R"("store":"yes")", user, "invalid_value", "store"},
      {R"("modalities":["audio"])", user, "unsupported_parameter", "modalities"},
      {R"("metadata":"x")", user, "invalid_value", "metadata"},
      {R"("request_id":"a b")", user, "invalid_value", "request_id"},
      {R"("deadline_ms":0)", user, "invalid_value", "deadline_ms"},
      {R"("service_tier":"gold")", user, "invalid_value", "service_tier"},
      {R"("prediction":"text")", user, "invalid_value", "prediction"},
      {R"("prediction":{})", user, "missing_required_parameter", "prediction.type"},
      {R"("prediction":{"type":"diff","content":"x"})", user, "invalid_value", "prediction.type"},
      {R"("prediction":{"type":"content"})", user, "missing_required_parameter",
       "prediction.content"},
      {R"("prediction":{"type":"content","content":7})", user, "invalid_value",
       "prediction.content"},
      {R"("prediction":{"type":"content","content":[]})", user, "invalid_value",
       "prediction.content"},
      {R"("prediction":{"type":"content","content":[{"type":"image_url"}]})", user,
       "unsupported_parameter", "prediction.content[0]"},
  };
  for (const BadCase& bad : cases) {
    const Status status = Chat(bad.more, bad.messages).status();
    EXPECT_EQ(status.reason(), bad.code) << bad.more << bad.messages << " -> " << status;
    EXPECT_EQ(status.param(), bad.param) << bad.more << bad.messages << " -> " << status;
  }
}

TEST(ChatRequest, TheModelIsNeededAndMustBeAName) {
  EXPECT_EQ(
      Parse(Dialect::kChat, R"({"messages":[{"role":"user","content":"x"}]})").status().param(),
      "model");
  for (const char* model : {"\"\"", "7", "[]", "true"}) {
    EXPECT_EQ(Parse(Dialect::kChat, R"({"messages":[{"role":"user","content":"x"}],"model":)" +
                                        std::string(model) + "}")
                  .status()
                  .reason(),
              "invalid_value");
  }
  const std::string huge(10 << 10, 'm');
  EXPECT_EQ(Parse(Dialect::kText, R"({"prompt":"x","model":")" + huge + "\"}").status().reason(),
            "invalid_value");
  EXPECT_TRUE(Parse(Dialect::kText, R"({"prompt":"x","model":"../x"})").ok())
      << "a name like any other: the gateway knows it not";
}

TEST(ChatRequest, MessagesAreCountedToTheLimit) {
  const auto messages = [](int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i)
      text += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"x"})";
    return text + "]";
  };
  EXPECT_TRUE(Chat("", messages(2048)).ok());
  EXPECT_EQ(Chat("", messages(2049)).status().param(), "messages");
}

TEST(ChatRequest, ContinuingTheLastMessageSwitchesTheGenerationPromptOff) {
  const auto call = Chat(R"("continue_final_message":true)",
                         R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(Prompt(call).continue_final_message);
  EXPECT_FALSE(Prompt(call).add_generation_prompt);
}

TEST(ChatRequest, ALastMessageOfTheAssistantsIsAnsweredWithANewOne) {
  for (const char* const text : {"b", ""}) {
    const std::string messages =
        R"([{"role":"user","content":"a"},{"role":"assistant","content":")" + std::string(text) +
        "\"}]";
    for (const char* const fields :
         {R"("n":1)", R"("add_generation_prompt":true,"continue_final_message":false)"}) {
      const auto call = Chat(fields, messages);
      ASSERT_TRUE(call.ok()) << call.status();
      EXPECT_FALSE(Prompt(call).continue_final_message);
      EXPECT_TRUE(Prompt(call).add_generation_prompt);
    }
  }
}

TEST(ChatRequest, TopPOfNothingIsTaken) {
  EXPECT_EQ(Chat(R"("top_p":0)")->requests[0].sampling.top_p, 0.0);
  EXPECT_EQ(Chat(R"("top_p":1e-9)")->requests[0].sampling.top_p, 1e-9);
}

TEST(ChatRequest, OnlyWhatIsSaidCountsAsGiven) {
  const api::SamplingParams silent = Chat("\"n\":1")->requests[0].sampling;
  EXPECT_FALSE(silent.temperature.given() || silent.top_p.given() || silent.top_k.given() ||
               silent.min_p.given() || silent.repetition_penalty.given());
  const api::SamplingParams said =
      Chat(R"("temperature":1,"top_p":1,"top_k":0,"min_p":0,"repetition_penalty":1)")
          ->requests[0]
          .sampling;
  EXPECT_TRUE(said.temperature.given() && said.top_p.given() && said.top_k.given() &&
              said.min_p.given() && said.repetition_penalty.given());
  EXPECT_FALSE(Chat(R"("temperature":null)")->requests[0].sampling.temperature.given());
}

TEST(ChatRequest, TextPartsAreJoinedAndTheirEndsKept) {
  const auto call = Chat(
      "\"n\":1",
      R"([{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":""},{"type":"text","text":"c"}]}])");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(Prompt(call).messages[0].content, "ab\n\nc");
  EXPECT_EQ(Prompt(call).messages[0].part_ends, (std::vector<size_t>{2, 3, 5}));
}

TEST(ChatRequest, ABodyThatIsNoObjectIsInvalidJson) {
  for (const char* text : {"null", "[]", "\"x\"", "1", "true"}) {
    EXPECT_EQ(Parse(Dialect::kChat, text).status().reason(), "invalid_json") << text;
  }
}

TEST(TextRequest, AllFormsOfThePromptAreRead) {
  const auto one = Text("");
  EXPECT_EQ(std::get<api::TextPrompt>(one->requests[0].prompt).text, "hi");
  EXPECT_TRUE(std::get<api::TextPrompt>(one->requests[0].prompt).add_special);
  EXPECT_TRUE(std::get<api::TextPrompt>(one->requests[0].prompt).parse_special);
  EXPECT_EQ(one->requests[0].sampling.max_tokens, 16);

  const auto many =
      Text(R"("n":2,"parse_special":false,"add_special_tokens":false)", R"(["a","b","c"])");
  ASSERT_EQ(many->requests.size(), 3u);
  EXPECT_EQ(many->choices(), 6);
  EXPECT_EQ(std::get<api::TextPrompt>(many->requests[2].prompt).text, "c");
  EXPECT_FALSE(std::get<api::TextPrompt>(many->requests[2].prompt).parse_special);
  EXPECT_FALSE(std::get<api::TextPrompt>(many->requests[2].prompt).add_special);

  const auto ids = Text("", "[1,2,3]");
  ASSERT_EQ(ids->requests.size(), 1u);
  EXPECT_EQ(std::get<api::TokenPrompt>(ids->requests[0].prompt).tokens,
            (std::vector<TokenId>{1, 2, 3}));
  const auto lists = Text("", "[[1],[2,3]]");
  ASSERT_EQ(lists->requests.size(), 2u);
  EXPECT_EQ(std::get<api::TokenPrompt>(lists->requests[1].prompt).tokens,
            (std::vector<TokenId>{2, 3}));
}

TEST(TextRequest, HostilePromptsAreRefused) {
  const std::vector<std::array<const char*, 3>> cases = {
      {"\"\"", "empty_prompt", "prompt"},
      {"[]", "empty_prompt", "prompt"},
      {"[\"\"]", "empty_prompt", "prompt[0]"},
      {"[[]]", "empty_prompt", "prompt[0]"},
      {"[\"a\",\"\"]", "empty_prompt", "prompt[1]"},
      {"[-1]", "token_out_of_range", "prompt[0]"},
      {"[2147483648]", "token_out_of_range", "prompt[0]"},
      {"[[1],[-5]]", "token_out_of_range", "prompt[1][0]"},
      {"[1,\"a\"]", "invalid_value", "prompt[1]"},
      {"[\"a\",1]", "invalid_value", "prompt[1]"},
      {"[[1],2]", "invalid_value", "prompt[1]"},
      {"[1.5]", "invalid_value", "prompt[0]"},
      {"[1e300]", "token_out_of_range", "prompt[0]"},
      {"7", "invalid_value", "prompt"},
      {"{}", "invalid_value", "prompt"},
      {"true", "invalid_value", "prompt"},
      {"[null]", "invalid_value", "prompt[0]"},
      {"[{}]", "invalid_value", "prompt[0]"},
      {"[true]", "invalid_value", "prompt[0]"},
      {"[[\"a\"]]", "invalid_value", "prompt[0][0]"},
      {"null", "missing_required_parameter", "prompt"},
  };
  for (const auto& [prompt, code, param] : cases) {
    const Status status = Text("", prompt).status();
    EXPECT_EQ(status.reason(), code) << prompt << " -> " << status;
    EXPECT_EQ(status.param(), param) << prompt << " -> " << status;
  }
  const auto prompts = [](int count) {
    std::string text = "[\"a\"";
    for (int i = 1; i < count; ++i) text += ",\"a\"";
    return text + "]";
  };
  EXPECT_TRUE(Text("", prompts(128)).ok());
  EXPECT_EQ(Text("", prompts(129)).status().param(), "prompt");
}

TEST(TextRequest, ScoringNeedsEchoAndAsksForThePromptsLogprobs) {
  EXPECT_EQ(Text(R"("max_tokens":0)").status().param(), "max_tokens");
  const auto call = Text(R"("max_tokens":0,"echo":true,"logprobs":3)");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->requests[0].score_only);
  EXPECT_EQ(call->requests[0].sampling.prompt_logprobs, 3);
  EXPECT_EQ(call->requests[0].sampling.logprobs, 3);
  EXPECT_EQ(Text(R"("echo":true)")->requests[0].sampling.prompt_logprobs, -1)
      << "echo alone costs no logits";
}

TEST(TextRequest, FieldsOfItsOwnAreChecked) {
  EXPECT_EQ(Text(R"("best_of":2)").status().param(), "best_of");
  EXPECT_TRUE(Text(R"("best_of":2,"n":2)").ok());
  EXPECT_EQ(Text(R"("logprobs":6)").status().param(), "logprobs");
  EXPECT_EQ(Text(R"("logprobs":true)").status().param(), "logprobs");
  EXPECT_EQ(Text(R"("suffix":1)").status().param(), "suffix");
  EXPECT_EQ(Parse(Dialect::kGenerate, R"({"prompt":"x","suffix":"y"})").status().reason(),
            "unsupported_parameter");
  EXPECT_EQ(Text(R"("messages":[])")->ignored, std::vector<std::string>{"messages"})
      << "chat's field is unknown here";
}

TEST(TextRequest, ASuffixStandsBehindEachPrompt) {
  const auto suffix = [](const Result<GenerationCall>& call, size_t i) {
    return std::get<api::TextPrompt>(call->requests[i].prompt).suffix;
  };
  const auto one = Text(R"("suffix":"end","n":2,"echo":true,"stream":true)");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(suffix(one, 0), "end");
  const auto many = Text(R"("suffix":"end")", R"(["a",""])");
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(suffix(many, 0), "end");
  EXPECT_EQ(suffix(many, 1), "end");
  EXPECT_TRUE(Text(R"("suffix":"end")", R"("")").ok()) << "the hole begins the text";
  EXPECT_TRUE(Text(R"("suffix":"end","logprobs":1)").ok());
  for (const char* nothing : {R"("suffix":"")", R"("suffix":null)"})
    EXPECT_FALSE(suffix(Text(nothing), 0).has_value()) << nothing;
}

TEST(TextRequest, ASuffixIsRefusedWhereItHasNoMeaning) {
  for (const char* ids : {"[1,2]", "[[1],[2]]"}) {
    const Status status = Text(R"("suffix":"end")", ids).status();
    EXPECT_EQ(status.reason(), "invalid_value") << ids;
    EXPECT_EQ(status.param(), "suffix") << ids;
  }
  EXPECT_EQ(Text(R"("suffix":"end","echo":true,"logprobs":1)").status().param(), "echo");
  EXPECT_EQ(Text(R"("suffix":"")", R"("")").status().reason(), "empty_prompt");
}

// KServe's decoders made up a prompt to have these read.
TEST(Sampling, IsReadWithoutAModelAndAPromptAndAsBesideThem) {
  IgnoredFields ignored;
  const auto sampling = [&](const char* fields) {
    return ParseSampling(boost::json::parse(fields), {}, &ignored);
  };
  const Result<api::GenerateRequest> none = sampling("{}");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(std::get<api::TextPrompt>(none->prompt).text, "");
  EXPECT_EQ(none->sampling.max_tokens, 16) << "as on the completions route";
  const Result<api::GenerateRequest> some = sampling(
      R"({"temperature":0.5,"n":2,"priority":1,"parse_special":false,"unknown":1,"model":null})");
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"unknown"});
  EXPECT_EQ(some->sampling.temperature, 0.5);
  EXPECT_EQ(some->n, 2);
  EXPECT_EQ(some->priority, api::Priority::kFlex);
  EXPECT_FALSE(std::get<api::TextPrompt>(some->prompt).parse_special);
  EXPECT_EQ(sampling(R"({"temperature":9})").status().param(), "temperature");
  EXPECT_EQ(sampling("[]").status().reason(), "invalid_json");
  for (const char* field :
       {"model", "prompt", "suffix", "stream", "echo", "logprobs", "prompt_logprobs"}) {
    const Status status = sampling(("{\"" + std::string(field) + "\":[]}").c_str()).status();
    EXPECT_EQ(status.reason(), "unsupported_parameter") << "whatever its value";
    EXPECT_EQ(status.param(), field);
  }
}

TEST(GenerateRequest, TakesAPromptOrMessagesAndStreamsByDefault) {
  EXPECT_TRUE(Parse(Dialect::kGenerate, R"({"prompt":"x"})")->stream);
  EXPECT_FALSE(Parse(Dialect::kGenerate, R"({"prompt":"x","stream":false})")->stream);
  EXPECT_TRUE(Parse(Dialect::kGenerate, R"({"messages":[{"role":"user","content":"x"}]})").ok());
  EXPECT_EQ(Parse(Dialect::kGenerate, "{}").status().reason(), "missing_required_parameter");
  EXPECT_EQ(
      Parse(Dialect::kGenerate, R"({"prompt":"x","messages":[{"role":"user","content":"x"}]})")
          .status()
          .param(),
      "prompt");
  EXPECT_EQ(Parse(Dialect::kGenerate, R"({"prompt":""})").status().reason(), "empty_prompt");
}

}  // namespace
}  // namespace tutti::protocol
