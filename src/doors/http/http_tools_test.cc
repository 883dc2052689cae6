// Tools over HTTP: what of them reaches the model, and calls in answers whole and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "doors/http/testing/door_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])";

class ToolsDoorTest : public DoorTest {
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

TEST_F(ToolsDoorTest, PassesToolsToTheModelAndCallsToTheClient) {
  CallWeather();
  StartDoor();
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

TEST_F(ToolsDoorTest, StreamsACallAsItIsMade) {
  CallWeather();
  StartDoor();
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

TEST_F(ToolsDoorTest, TakesCallsAndResultsBack) {
  StartDoor();
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
  EXPECT_EQ(messages[2].name, "weather");
}

}  // namespace
}  // namespace tutti::http::testing
