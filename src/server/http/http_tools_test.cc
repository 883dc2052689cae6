// Tools over HTTP: what of them reaches the model, and calls in answers whole and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";

class ToolsServerTest : public ServerTest {
 protected:
  static std::string Chat(const std::string& more) {
    return R"({"model":"fake","messages":[{"role":"user","content":"x"}],)" + std::string(kTools) +
           more + "}";
  }
  // One call in three events.
  void CallWeather() {
    inference_.on_generate = [](const std::shared_ptr<api::testing::FakeGeneration>& generation) {
      generation->Started();
      generation->Calls({{0, "call_1", "weather", ""}});
      generation->Calls({{0, "", "", R"({"city":)"}});
      generation->Calls({{0, "", "", R"("Oslo"})"}});
      generation->ChoiceEnd(api::FinishReason::kToolCalls);
      generation->End();
      return OkStatus();
    };
  }
};

TEST_F(ToolsServerTest, PassesToolsToTheModelAndCallsToTheClient) {
  CallWeather();
  StartServer();
  const RawResponse response = Ask(Post(
      "/v1/chat/completions", Chat(R"(,"tool_choice":"required","parallel_tool_calls":false)")));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body,
              HasSubstr(R"("content":null,"refusal":null,"tool_calls":[{"id":"call_1",)"
                        R"("type":"function","function":{"name":"weather",)"
                        R"("arguments":"{\"city\":\"Oslo\"}"}}]})"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"tool_calls")"));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  const auto& chat = std::get<api::ChatPrompt>(generation->request.prompt);
  ASSERT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.tools[0].name, "weather");
  EXPECT_EQ(chat.tools[0].parameters, R"({"type":"object"})");
  EXPECT_EQ(chat.tool_choice.kind, api::ToolChoice::Kind::kRequired);
  EXPECT_FALSE(chat.parallel_tool_calls);
}

TEST_F(ToolsServerTest, StreamsACallAsItIsMade) {
  CallWeather();
  StartServer();
  const RawResponse response = Ask(Post("/v1/chat/completions", Chat(R"(,"stream":true)")));
  EXPECT_EQ(response.status, 200);
  const auto at = [&](const char* text) { return response.body.find(text); };
  const size_t name = at(R"("tool_calls":[{"index":0,"id":"call_1","type":"function",)"
                         R"("function":{"name":"weather","arguments":""}}])");
  const size_t arguments =
      at(R"("tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}])");
  const size_t end = at(R"("delta":{},"logprobs":null,"finish_reason":"tool_calls")");
  ASSERT_NE(name, std::string::npos) << response.body;
  ASSERT_NE(arguments, std::string::npos) << response.body;
  ASSERT_NE(end, std::string::npos) << response.body;
  EXPECT_TRUE(name < arguments && arguments < end);
}

TEST_F(ToolsServerTest, TakesCallsAndResultsBack) {
  StartServer();
  inference_.on_generate = [](const std::shared_ptr<api::testing::FakeGeneration>& generation) {
    generation->AppendAnswer({"Warm."});
    return OkStatus();
  };
  const std::string body =
      R"({"model":"fake","messages":[{"role":"user","content":"x"},{"role":"assistant",)"
      R"("content":null,"tool_calls":[{"id":"call_1","type":"function","function":)"
      R"({"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"call_1","content":"21"}],)" +
      std::string(kTools) + "}";
  EXPECT_EQ(Ask(Post("/v1/chat/completions", body)).status, 200);
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  const auto& messages = std::get<api::ChatPrompt>(generation->request.prompt).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].tool_calls,
            std::vector<api::ToolCall>({{"call_1", "weather", R"({"city":"Oslo"})"}}));
  EXPECT_EQ(messages[2].tool_call_id, "call_1");
  EXPECT_EQ(messages[2].name, "") << "the gateway names it for templates";
}

// The Responses API has flat tools, and calls as items.
class ToolResponsesTest : public ToolsServerTest {
 protected:
  static constexpr const char* kFlat =
      R"(,"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}])";

  RawResponse Create(const std::string& members) {
    return Ask(Post("/v1/responses", R"({"model":"fake")" + members + "}"));
  }
  static std::string IdOf(const std::string& body) {
    const std::string mark = R"("id":")";
    const size_t at = body.find(mark) + mark.size();
    return body.substr(at, body.find('"', at) - at);
  }
  // The messages of the k-th prompt, each as role, content and calls.
  std::string Prompt(size_t k) {
    const auto generation = inference_.Generation(k);
    if (generation == nullptr) return "none";
    std::string text;
    for (const api::ChatMessage& message :
         std::get<api::ChatPrompt>(generation->request.prompt).messages) {
      text += message.content;
      if (!message.reasoning.empty()) text += "{" + message.reasoning + "}";
      for (const api::ToolCall& call : message.tool_calls) text += "@" + call.id + call.arguments;
      if (!message.tool_call_id.empty()) text += "#" + message.tool_call_id + message.name;
      text += "|";
    }
    return text;
  }
};

// Reasoning, then the call.
class ReasoningResponsesTest : public ToolResponsesTest {
 protected:
  void ThinkAndCall() {
    inference_.on_generate = [](const std::shared_ptr<api::testing::FakeGeneration>& generation) {
      generation->Started();
      for (const char* thought : {"Where", "?"}) {
        api::StreamEvent event;
        event.reasoning = thought;
        generation->stream->Append(std::move(event));
      }
      generation->Calls({{0, "call_1", "weather", R"({"city":"Oslo"})"}});
      generation->ChoiceEnd(api::FinishReason::kToolCalls);
      generation->End();
      return OkStatus();
    };
  }
};

constexpr const char* kThought = R"("type":"reasoning","status":"completed","summary":[],)"
                                 R"("content":[{"type":"reasoning_text","text":"Where?"}]})";

constexpr const char* kOutput =
    R"(,"input":[{"type":"function_call_output","call_id":"call_1","output":"21"}])";

TEST_F(ToolResponsesTest, CallsAreItemsOfTheOutput) {
  CallWeather();
  StartServer();
  const RawResponse response = Create(
      std::string(R"(,"input":"x","tool_choice":"required","parallel_tool_calls":false)") + kFlat);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("output":[{"id":"fc_)"));
  EXPECT_THAT(
      response.body,
      HasSubstr(R"("type":"function_call","status":"completed",)"
                R"("arguments":"{\"city\":\"Oslo\"}","call_id":"call_1","name":"weather"}])"));
  EXPECT_THAT(response.body, HasSubstr(R"("tools":[{"type":"function","name":"weather")"));
  EXPECT_THAT(response.body, HasSubstr(R"("tool_choice":"required")"));
  EXPECT_THAT(response.body, HasSubstr(R"("parallel_tool_calls":false)"));
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  const auto& chat = std::get<api::ChatPrompt>(generation->request.prompt);
  EXPECT_EQ(chat.tools.size(), 1u);
  EXPECT_FALSE(chat.parallel_tool_calls);
  EXPECT_EQ(Ask(Get("/v1/responses/" + IdOf(response.body))).body, response.body);
}

TEST_F(ToolResponsesTest, AStreamWithACallIsReplayed) {
  CallWeather();
  StartServer();
  const RawResponse stream = Create(std::string(R"(,"input":"x","stream":true)") + kFlat);
  ASSERT_EQ(stream.status, 200) << stream.body;
  size_t at = 0;
  for (const char* type :
       {"response.created", "response.in_progress", "response.output_item.added",
        "response.function_call_arguments.delta", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done",
        "response.completed"}) {
    at = stream.body.find("event: " + std::string(type) + "\n", at);
    ASSERT_NE(at, std::string::npos) << type << " in " << stream.body;
    ++at;
  }
  EXPECT_EQ(Ask(Get("/v1/responses/" + IdOf(stream.body) + "?stream=true")).body, stream.body);
}

TEST_F(ToolResponsesTest, PreviousResponseIdBringsTheCallBack) {
  CallWeather();
  StartServer();
  const RawResponse first = Create(std::string(R"(,"input":"x")") + kFlat);
  const RawResponse second =
      Create(R"(,"previous_response_id":")" + IdOf(first.body) + "\"" + kOutput + kFlat);
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(Prompt(1), R"(x|@call_1{"city":"Oslo"}|21#call_1|)");
  EXPECT_THAT(Ask(Get("/v1/responses/" + IdOf(second.body) + "/input_items")).body,
              HasSubstr(R"("type":"function_call_output","status":"completed",)"
                        R"("call_id":"call_1","output":"21")"));
}

TEST_F(ToolResponsesTest, AConversationKeepsCallsAndOutputs) {
  CallWeather();
  StartServer();
  const std::string id = IdOf(Ask(Post("/v1/conversations", "{}")).body);
  const std::string in = R"(,"conversation":")" + id + "\"";
  ASSERT_EQ(Create(in + R"(,"input":"x")" + kFlat).status, 200);
  ASSERT_EQ(Create(in + kOutput + kFlat).status, 200);
  ASSERT_EQ(Create(in + R"(,"input":"y")").status, 200);
  EXPECT_EQ(Prompt(2), R"(x|@call_1{"city":"Oslo"}|21#call_1|@call_1{"city":"Oslo"}|y|)");
  const std::string items = Ask(Get("/v1/conversations/" + id + "/items?order=asc&limit=4")).body;
  EXPECT_THAT(items, HasSubstr(R"("type":"function_call","status":"completed",)"
                               R"("arguments":"{\"city\":\"Oslo\"}","call_id":"call_1")"));
  EXPECT_THAT(items, HasSubstr(R"("type":"function_call_output","status":"completed",)"
                               R"("call_id":"call_1","output":"21")"));
  const RawResponse added =
      Ask(Post("/v1/conversations/" + id + "/items",
               R"({"items":[{"type":"function_call","call_id":"call_9","name":"f"}]})"));
  ASSERT_EQ(added.status, 200) << added.body;
  EXPECT_THAT(added.body, HasSubstr(R"("arguments":"{}","call_id":"call_9","name":"f")"));
}

TEST_F(ReasoningResponsesTest, ReasoningIsAnItemBeforeTheCall) {
  ThinkAndCall();
  StartServer();
  const RawResponse response = Create(std::string(R"(,"input":"x")") + kFlat);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("output":[{"id":"rs_)"));
  EXPECT_THAT(response.body, HasSubstr(std::string(kThought) + R"(,{"id":"fc_)"));
  EXPECT_EQ(Ask(Get("/v1/responses/" + IdOf(response.body))).body, response.body);
}

TEST_F(ReasoningResponsesTest, AStreamIsReplayedFromAnyEvent) {
  ThinkAndCall();
  StartServer();
  const RawResponse stream = Create(std::string(R"(,"input":"x","stream":true)") + kFlat);
  ASSERT_EQ(stream.status, 200) << stream.body;
  size_t at = 0;
  std::vector<size_t> begins;
  for (const char* type :
       {"response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", "response.reasoning_text.delta",
        "response.reasoning_text.delta", "response.reasoning_text.done",
        "response.content_part.done", "response.output_item.done", "response.output_item.added",
        "response.function_call_arguments.delta", "response.function_call_arguments.done",
        "response.output_item.done", "response.completed"}) {
    at = stream.body.find("event: " + std::string(type) + "\n", at);
    ASSERT_NE(at, std::string::npos) << type << " in " << stream.body;
    begins.push_back(at++);
  }
  const std::string path = "/v1/responses/" + IdOf(stream.body) + "?stream=true";
  EXPECT_EQ(Ask(Get(path)).body, stream.body);
  for (const size_t after : {1u, 4u, 5u, 8u}) {
    EXPECT_EQ(Ask(Get(path + "&starting_after=" + std::to_string(after))).body,
              stream.body.substr(begins[after + 1]))
        << after;
  }
}

TEST_F(ReasoningResponsesTest, OutputSentBackIsThePromptOfPreviousResponseId) {
  ThinkAndCall();
  StartServer();
  const std::string first = Create(std::string(R"(,"input":"x")") + kFlat).body;
  const std::string output(R"({"type":"function_call_output","call_id":"call_1","output":"21"})");
  const RawResponse second =
      Create(R"(,"previous_response_id":")" + IdOf(first) + R"(","input":[)" + output + "]");
  ASSERT_EQ(second.status, 200) << second.body;
  const size_t begin = first.find(R"("output":[)") + 10, end = first.find(R"(],"parallel)");
  const RawResponse third = Create(R"(,"input":[{"role":"user","content":"x"},)" +
                                   first.substr(begin, end - begin) + "," + output + "]");
  ASSERT_EQ(third.status, 200) << third.body;
  EXPECT_EQ(Prompt(1), R"(x|{Where?}@call_1{"city":"Oslo"}|21#call_1|)");
  EXPECT_EQ(Prompt(2), Prompt(1));
  const std::string items =
      Ask(Get("/v1/responses/" + IdOf(third.body) + "/input_items?order=asc")).body;
  EXPECT_THAT(items, HasSubstr(R"({"id":"rs_)"));
  EXPECT_THAT(items, HasSubstr(kThought));
}

TEST_F(ReasoningResponsesTest, AConversationKeepsReasoning) {
  ThinkAndCall();
  StartServer();
  const std::string id = IdOf(Ask(Post("/v1/conversations", "{}")).body);
  const std::string in = R"(,"conversation":")" + id + "\"";
  const std::string first = Create(in + R"(,"input":"x")" + kFlat).body;
  ASSERT_EQ(Create(in + kOutput + kFlat).status, 200);
  EXPECT_EQ(Prompt(1), R"(x|{Where?}@call_1{"city":"Oslo"}|21#call_1|)");
  const std::string items = Ask(Get("/v1/conversations/" + id + "/items?order=asc")).body;
  const size_t at = first.find(R"({"id":"rs_)");
  const std::string item = first.substr(at, first.find("]}", at) + 2 - at);
  EXPECT_THAT(items, HasSubstr(item)) << "with the id of the response's item";
  const std::string name = item.substr(7, item.find('"', 7) - 7);
  EXPECT_EQ(Ask(Get("/v1/conversations/" + id + "/items/" + name)).body, item);
  const RawResponse added =
      Ask(Post("/v1/conversations/" + id + "/items", R"({"items":[)" + item + "]}"));
  ASSERT_EQ(added.status, 200) << added.body;
  EXPECT_THAT(added.body, HasSubstr(kThought));
}

}  // namespace
}  // namespace tutti::http::testing
