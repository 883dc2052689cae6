// Golden frames: what a client sees, byte for byte, for streams and whole answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/response_writer.h"

namespace tutti::protocol {
namespace {

using ::testing::ElementsAre;
using EventKind = api::StreamEvent::Kind;

const ResponseHead kHead{"chatcmpl-1", "m", 1700000000, "fp_1"};
const std::string kPrefix =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","system_fingerprint":"fp_1","choices":[)";
const std::string kTextPrefix =
    R"(data: {"id":"chatcmpl-1","object":"text_completion","created":1700000000,"model":"m","system_fingerprint":"fp_1","choices":[)";

GenerationCall Call(Dialect dialect, bool stream, int prompts = 1, int n = 1) {
  GenerationCall call;
  call.dialect = dialect;
  call.stream = stream;
  call.requests.resize(static_cast<size_t>(prompts));
  for (auto& request : call.requests) request.n = n;
  return call;
}

api::StreamEvent Started(int prompt_tokens, int cached = 0) {
  api::StreamEvent event;
  event.kind = EventKind::kStarted;
  event.usage = {prompt_tokens, cached, 0};
  return event;
}
api::StreamEvent Token(std::string text, int choice = 0,
                       std::optional<api::TokenLogprobs> logprobs = std::nullopt) {
  api::StreamEvent event;
  event.kind = EventKind::kToken;
  event.choice = choice;
  event.token = 1;
  event.text = std::move(text);
  event.logprobs = std::move(logprobs);
  return event;
}
api::StreamEvent PromptToken(std::string bytes, std::optional<float> logprob) {
  api::StreamEvent event;
  event.kind = EventKind::kPromptToken;
  event.token = 1;
  event.text = bytes;
  if (logprob.has_value())
    event.logprobs = api::TokenLogprobs{{1, *logprob, bytes, false}, {{2, -0.25f, "top", false}}};
  return event;
}
api::StreamEvent ChoiceEnd(api::FinishReason reason = api::FinishReason::kStop, int choice = 0,
                           std::string held = "") {
  api::StreamEvent event;
  event.kind = EventKind::kChoiceEnd;
  event.choice = choice;
  event.finish_reason = reason;
  event.text = std::move(held);
  return event;
}
api::StreamEvent End(api::Usage usage) {
  api::StreamEvent event;
  event.kind = EventKind::kEnd;
  event.usage = usage;
  return event;
}
api::TokenLogprobs Logprobs(std::string bytes, float logprob, std::vector<api::Logprob> top = {},
                            bool special = false) {
  return {{1, logprob, std::move(bytes), special}, std::move(top)};
}

std::string Feed(const GenerationCall& call,
                 const std::vector<std::pair<int, api::StreamEvent>>& events,
                 std::vector<std::string> echo = {}) {
  std::string out;
  const auto writer = MakeResponseWriter(call, kHead, std::move(echo));
  for (const auto& [prompt, event] : events) writer->OnEvent(prompt, event, &out);
  writer->OnDone(&out);
  return out;
}
std::string Feed(const GenerationCall& call, const std::vector<api::StreamEvent>& events,
                 std::vector<std::string> echo = {}) {
  std::vector<std::pair<int, api::StreamEvent>> numbered;
  for (const auto& event : events) numbered.emplace_back(0, event);
  return Feed(call, numbered, std::move(echo));
}

TEST(OpenAiResponse, ReasoningStandsApartUnderBothItsNames) {
  const auto thought = [](std::string reasoning, std::string text) {
    api::StreamEvent event = Token(std::move(text));
    event.reasoning = std::move(reasoning);
    return event;
  };
  for (const bool stream : {true, false}) {
    const GenerationCall call = Call(Dialect::kChat, stream);
    const std::unique_ptr<ResponseWriter> writer = MakeResponseWriter(call, kHead, {});
    std::string out;
    for (const api::StreamEvent& event :
         {Started(3), thought("Why", ""), thought("?", "So"), ChoiceEnd(), End({3, 0, 2})})
      writer->OnEvent(0, event, &out);
    writer->OnDone(&out);
    if (stream) {
      const std::string first =
          kPrefix +
          R"({"index":0,"delta":{"role":"assistant","reasoning_content":"Why","reasoning":"Why"},"logprobs":null,"finish_reason":null}]})" +
          "\n\n";
      const std::string second =
          kPrefix +
          R"({"index":0,"delta":{"reasoning_content":"?","reasoning":"?"},"logprobs":null,"finish_reason":null}]})" +
          "\n\n" + kPrefix + R"({"index":0,"delta":{"content":"So"})";
      EXPECT_EQ(out.substr(0, first.size()), first);
      EXPECT_EQ(out.substr(first.size(), second.size()), second);
    } else {
      EXPECT_THAT(
          out,
          ::testing::HasSubstr(
              R"("content":"So","refusal":null,"reasoning_content":"Why?","reasoning":"Why?")"));
    }
  }
}

api::StreamEvent Calling(std::vector<api::ToolCallDelta> deltas, std::string text = "",
                         std::optional<api::TokenLogprobs> logprobs = std::nullopt) {
  api::StreamEvent event = Token(std::move(text), 0, std::move(logprobs));
  event.tool_calls = std::move(deltas);
  return event;
}

std::vector<api::StreamEvent> TwoCalls() {
  return {Started(5),
          Calling({{0, "call_1", "f", ""}}),
          Calling({{0, "", "", R"({"a")"}}),
          Calling({{0, "", "", ":1}"}, {1, "call_2", "g", ""}}),
          Calling({{1, "", "", "{}"}}),
          ChoiceEnd(api::FinishReason::kToolCalls),
          End({5, 0, 9})};
}

TEST(ChatAnswer, HasCallsAndNoContent) {
  const std::string out = Feed(Call(Dialect::kChat, false), TwoCalls());
  EXPECT_THAT(
      out,
      ::testing::HasSubstr(
          R"("message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[)"
          R"({"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
          R"({"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]},)"
          R"("logprobs":null,"finish_reason":"tool_calls","stop_reason":null}])"));
}

TEST(ChatAnswer, HasContentBesideCalls) {
  const std::string out =
      Feed(Call(Dialect::kChat, false),
           {Started(5), Token("Wait."), Calling({{0, "call_1", "f", "{}"}}, " So:"),
            ChoiceEnd(api::FinishReason::kToolCalls), End({5, 0, 9})});
  EXPECT_THAT(out, ::testing::HasSubstr(R"("content":"Wait. So:","refusal":null,"tool_calls":[{)"));
  EXPECT_THAT(
      Feed(Call(Dialect::kChat, false), {Started(5), ChoiceEnd(), End({5, 0, 1})}),
      ::testing::HasSubstr(R"("message":{"role":"assistant","content":"","refusal":null},)"))
      << "no calls: no tool_calls, and an empty text";
}

TEST(ChatStream, BeginsEachCallWithItsNameThenSendsArguments) {
  const auto chunk = [](const std::string& delta) {
    return kPrefix + R"({"index":0,"delta":{)" + delta +
           R"(},"logprobs":null,"finish_reason":null}]})" + "\n\n";
  };
  EXPECT_EQ(
      Feed(Call(Dialect::kChat, true), TwoCalls()),
      chunk(R"("role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1",)"
            R"("type":"function","function":{"name":"f","arguments":""}}])") +
          chunk(R"("tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}])") +
          chunk(R"("tool_calls":[{"index":0,"function":{"arguments":":1}"}}])") +
          chunk(R"("tool_calls":[{"index":1,"id":"call_2","type":"function",)"
                R"("function":{"name":"g","arguments":""}}])") +
          chunk(R"("tool_calls":[{"index":1,"function":{"arguments":"{}"}}])") + kPrefix +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, SendsTextBeforeTheCallOfTheSameEvent) {
  const std::string out =
      Feed(Call(Dialect::kChat, true), {Started(5), Calling({{0, "call_1", "f", ""}}, "So"),
                                        ChoiceEnd(api::FinishReason::kToolCalls), End({5, 0, 2})});
  EXPECT_EQ(out.find(R"("delta":{"role":"assistant","content":"So"})"), kPrefix.size() + 11);
  EXPECT_THAT(out, ::testing::HasSubstr(R"("delta":{"tool_calls":[{"index":0,"id":"call_1")"));
}

TEST(ChatStream, SendsACallThatTheEndCompletes) {
  api::StreamEvent end = ChoiceEnd(api::FinishReason::kToolCalls);
  end.tool_calls = {{0, "call_1", "f", "{}"}};
  const std::string out =
      Feed(Call(Dialect::kChat, true), {Started(5), Token(""), end, End({5, 0, 1})});
  EXPECT_THAT(
      out,
      ::testing::HasSubstr(
          R"("delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1",)"
          R"("type":"function","function":{"name":"f","arguments":"{}"}}]})"));
  EXPECT_EQ(out.find(R"("content":"")"), std::string::npos) << "no empty chunk before the end";
}

// The tokens that made a call without showing text wait for the next chunk of the choice.
TEST(ChatStream, KeepsLogprobsOfTokensThatMadeCalls) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.logprobs = 0;
  const std::string out =
      Feed(call, {Started(5), Token("", 0, Logprobs("<", -1)), Token("", 0, Logprobs("f", -2)),
                  Calling({{0, "call_1", "f", ""}}, "", Logprobs(">", -3)),
                  Token("", 0, Logprobs("{", -4)), ChoiceEnd(api::FinishReason::kToolCalls),
                  End({5, 0, 4})});
  const size_t call_at = out.find("call_1"), first = out.find(R"({"token":"<")");
  ASSERT_NE(call_at, std::string::npos);
  EXPECT_GT(first, call_at) << "in the chunk of the call";
  for (const char* token : {"<", "f", ">", "{"}) {
    const std::string shown = R"({"token":")" + std::string(token) + R"(","logprob")";
    EXPECT_NE(out.find(shown), std::string::npos) << token;
    EXPECT_EQ(out.find(shown), out.rfind(shown)) << token << " once";
  }
  EXPECT_LT(out.find(R"({"token":"{")"), out.find(R"("finish_reason":"tool_calls")"));
}

TEST(Generate, ShowsCallsWholeAndStreamed) {
  EXPECT_THAT(Feed(Call(Dialect::kGenerate, false), TwoCalls()),
              ::testing::HasSubstr(R"("text":"","tool_calls":[{"id":"call_1","type":"function",)"));
  const std::string streamed = Feed(Call(Dialect::kGenerate, true), TwoCalls());
  EXPECT_THAT(streamed,
              ::testing::StartsWith("event: data\ndata: "
                                    R"({"tool_calls":[{"index":0,"id":"call_1","type":"function",)"
                                    R"("function":{"name":"f","arguments":""}}]})"
                                    "\n\n"));
  EXPECT_THAT(streamed, ::testing::HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST(ChatStream, RoleComesWithTheFirstTextThenDeltasThenTheFinishThenDone) {
  const std::string out = Feed(Call(Dialect::kChat, true), {Started(5), Token("He"), Token("llo"),
                                                            ChoiceEnd(), End({5, 0, 2})});
  EXPECT_EQ(
      out,
      kPrefix +
          R"({"index":0,"delta":{"role":"assistant","content":"He"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{"content":"llo"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
          "\n\n" +
          "data: [DONE]\n\n");
}

TEST(ChatStream, UsageIsNullInChunksAndComesOnceWithEmptyChoices) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.include_usage = true;
  const std::string out = Feed(
      call, {Started(5, 4), Token("x"), ChoiceEnd(api::FinishReason::kLength), End({5, 4, 1})});
  EXPECT_EQ(
      out,
      kPrefix +
          R"({"index":0,"delta":{"role":"assistant","content":"x"},"logprobs":null,"finish_reason":null}],"usage":null})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":null})"
          "\n\n" +
          kPrefix +
          R"(],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":4},)"
          R"("completion_tokens_details":{"reasoning_tokens":0}}})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, UsageTellsWhatCameOfAPrediction) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.include_usage = true;
  api::Usage usage{5, 4, 1};
  usage.accepted_prediction_tokens = 7;
  usage.rejected_prediction_tokens = 2;
  const std::string out = Feed(call, {Started(5, 4), Token("x"), ChoiceEnd(), End(usage)});
  EXPECT_NE(
      out.find(
          R"("reasoning_tokens":0,"accepted_prediction_tokens":7,"rejected_prediction_tokens":2})"),
      std::string::npos)
      << out;
}

TEST(ChatStream, ContinuousUsageRunsAlong) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.include_usage = call.continuous_usage = true;
  const std::string out =
      Feed(call, {Started(5), Token("a"), Token("b"), ChoiceEnd(), End({5, 0, 2})});
  EXPECT_NE(
      out.find(
          R"("content":"a"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":1)"),
      std::string::npos);
  EXPECT_NE(
      out.find(
          R"("content":"b"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":2)"),
      std::string::npos);
}

TEST(ChatStream, HeldBackTextIsShownBeforeTheFinish) {
  const std::string out = Feed(Call(Dialect::kChat, true),
                               {Started(1), Token("a"), Token(""),
                                ChoiceEnd(api::FinishReason::kLength, 0, "bc"), End({1, 0, 2})});
  EXPECT_NE(out.find(R"("delta":{"content":"bc"},"logprobs":null,"finish_reason":null)"),
            std::string::npos)
      << out;
}

TEST(ChatStream, AChoiceWithoutTextStillStartsAndEnds) {
  const std::string out =
      Feed(Call(Dialect::kChat, true), {Started(1), Token(""), ChoiceEnd(), End({1, 0, 1})});
  EXPECT_EQ(
      out,
      kPrefix +
          R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, ChoicesInterleaveEachWithItsRoleAndFinish) {
  const std::string out =
      Feed(Call(Dialect::kChat, true, 1, 2),
           {Started(1), Token("a", 0), Token("b", 1), ChoiceEnd(api::FinishReason::kStop, 1),
            Token("c", 0), ChoiceEnd(), End({1, 0, 3})});
  EXPECT_EQ(
      out,
      kPrefix +
          R"({"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":1,"delta":{"role":"assistant","content":"b"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":1,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{"content":"c"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kPrefix +
          R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, StopReasonNamesTheStringOrToken) {
  api::StreamEvent text = ChoiceEnd(), token = ChoiceEnd();
  text.stop_reason = std::string("END");
  token.stop_reason = TokenId{42};
  EXPECT_NE(
      Feed(Call(Dialect::kChat, true), {Token("x"), text, End({})}).find(R"("stop_reason":"END")"),
      std::string::npos);
  EXPECT_NE(
      Feed(Call(Dialect::kChat, true), {Token("x"), token, End({})}).find(R"("stop_reason":42)"),
      std::string::npos);
}

TEST(ChatStream, LogprobsOfTokensWithoutTextWaitForTheTextTheyBelongTo) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.logprobs = 1;
  const std::string out = Feed(
      call, {Started(1), Token("", 0, Logprobs("\xe2\x82", -0.5f, {{1, -0.5f, "\xe2\x82", false}})),
             Token("\xe2\x82\xac", 0, Logprobs("\xac", -1.0f)), ChoiceEnd(), End({1, 0, 2})});
  EXPECT_NE(
      out.find(
          R"("delta":{"role":"assistant","content":"€"},"logprobs":{"content":[)"
          R"({"token":"bytes:\\xe2\\x82","logprob":-0.5,"bytes":[226,130],"top_logprobs":[{"token":"bytes:\\xe2\\x82","logprob":-0.5,"bytes":[226,130]}]},)"
          R"({"token":"bytes:\\xac","logprob":-1.0,"bytes":[172],"top_logprobs":[]}],"refusal":null})"),
      std::string::npos)
      << out;
}

TEST(ChatStream, AFailureIsAnErrorEventAndDoneWithoutAFinish) {
  std::string out;
  const GenerationCall call = Call(Dialect::kChat, true);
  const auto writer = MakeResponseWriter(call, kHead, {});
  writer->OnEvent(0, Token("x"), &out);
  out.clear();
  writer->OnError(ViewError(Unavailable("engine_stalled", "restart")), &out);
  EXPECT_EQ(
      out,
      R"(data: {"error":{"message":"restart","type":"server_error","param":null,"code":"engine_stalled"}})"
      "\n\ndata: [DONE]\n\n");
}

TEST(ChatStream, ObfuscationVariesTheLengthOfDeltas) {
  GenerationCall call = Call(Dialect::kChat, true);
  call.obfuscation = true;
  std::vector<api::StreamEvent> events;
  for (int i = 0; i < 20; ++i) events.push_back(Token("x"));
  events.push_back(ChoiceEnd());
  events.push_back(End({}));
  const std::string out = Feed(call, events);
  std::set<size_t> lengths;
  for (size_t at = 0; (at = out.find("\"obfuscation\":\"", at)) != std::string::npos; ++at) {
    lengths.insert(out.find('"', at + 15) - at);
  }
  EXPECT_GT(lengths.size(), 5u);
}

TEST(TextStream, ChunksCarryTextAndSeveralPromptsAreNumberedPromptMajor) {
  const GenerationCall call = Call(Dialect::kText, true, 2, 2);
  const std::string out = Feed(
      call,
      std::vector<std::pair<int, api::StreamEvent>>{{0, Token("a", 1)},
                                                    {1, Token("b", 0)},
                                                    {1, Token("c", 1)},
                                                    {1, ChoiceEnd(api::FinishReason::kLength, 1)}});
  EXPECT_EQ(
      out,
      kTextPrefix +
          R"({"index":1,"text":"a","logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kTextPrefix +
          R"({"index":2,"text":"b","logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kTextPrefix +
          R"({"index":3,"text":"c","logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          kTextPrefix +
          R"({"index":3,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(TextStream, TheEchoComesWithTheFirstTextAndItsLogprobs) {
  GenerationCall call = Call(Dialect::kText, true);
  call.echo = true;
  call.logprobs = 0;
  const std::string out =
      Feed(call,
           {Started(2), PromptToken("Hi", std::nullopt), PromptToken(" you", -2.0f),
            Token("!", 0, Logprobs("!", -1.0f)), ChoiceEnd(), End({2, 0, 1})},
           {"Hi you"});
  EXPECT_EQ(
      out,
      kTextPrefix +
          R"({"index":0,"text":"Hi you!","logprobs":{"tokens":["Hi"," you","!"],"token_logprobs":[null,-2.0,-1.0],)"
          R"("top_logprobs":[null,{" you":-2.0},{"!":-1.0}],"text_offset":[0,2,6]},"finish_reason":null}]})"
          "\n\n" +
          kTextPrefix +
          R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":null}]})"
          "\n\ndata: [DONE]\n\n");
}

TEST(GenerateStream, HasDataAndDoneEvents) {
  const std::string out = Feed(Call(Dialect::kGenerate, true),
                               {Started(1), Token("a"), Token(""),
                                ChoiceEnd(api::FinishReason::kStop, 0, "b"), End({1, 0, 2})});
  EXPECT_EQ(
      out,
      "event: data\ndata: {\"text\":\"a\"}\n\nevent: data\ndata: {\"text\":\"b\"}\n\nevent: "
      "done\ndata: "
      R"({"id":"chatcmpl-1","model":"m","finish_reason":"stop","stop_reason":null,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,)"
      R"("prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}})"
      "\n\n");
}

TEST(GenerateStream, AFailureIsOneErrorEvent) {
  std::string out;
  const GenerationCall call = Call(Dialect::kGenerate, true);
  MakeResponseWriter(call, kHead, {})
      ->OnError(ViewError(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded", "too late")),
                &out);
  EXPECT_EQ(out,
            "event: error\ndata: {\"error\":{\"message\":\"too "
            "late\",\"type\":\"server_error\",\"param\":null,\"code\":\"deadline_exceeded\"}}\n\n");
}

TEST(ChatAnswer, HasTheShapeTheClientsExpect) {
  const std::string out =
      Feed(Call(Dialect::kChat, false),
           {Started(5, 2), Token("He"), Token("llo"), ChoiceEnd(), End({5, 2, 2})});
  EXPECT_EQ(
      out,
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","system_fingerprint":"fp_1","service_tier":"default",)"
      R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"logprobs":null,"finish_reason":"stop","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST(ChatAnswer, PromptLogprobsAndTimingsComeOnRequest) {
  GenerationCall call = Call(Dialect::kChat, false);
  call.prompt_logprobs = true;
  call.timings = true;
  const std::string out =
      Feed(call, {Started(2), PromptToken("a", std::nullopt), PromptToken("b", -3.0f), Token("c"),
                  ChoiceEnd(), End({2, 0, 1})});
  EXPECT_NE(
      out.find(
          R"("prompt_logprobs":[null,{"2":{"logprob":-0.25,"rank":1,"decoded_token":"top"},"1":{"logprob":-3.0,"decoded_token":"b"}}])"),
      std::string::npos)
      << out;
  EXPECT_NE(out.find(R"("timings":{"cache_n":0,)"), std::string::npos);
  EXPECT_TRUE(ParseJson(out).ok());
}

TEST(TextAnswer, EchoWithLogprobsCoversPromptAndOutput) {
  GenerationCall call = Call(Dialect::kText, false, 1, 2);
  call.echo = true;
  call.logprobs = 1;
  const std::string out =
      Feed(call,
           {Started(2), PromptToken("\xc3\xa9", std::nullopt), PromptToken("b", -2.0f),
            Token("c", 0, Logprobs("c", -1.0f, {{9, -0.5f, "d", false}})),
            Token("x", 1, Logprobs("x", -INFINITY, {{9, -0.5f, "x", false}})), ChoiceEnd(),
            ChoiceEnd(api::FinishReason::kLength, 1), End({2, 0, 2})},
           {"\xc3\xa9"
            "b"});
  EXPECT_NE(
      out.find(
          R"({"index":0,"text":"ébc","logprobs":{"tokens":["é","b","c"],"token_logprobs":[null,-2.0,-1.0],)"
          R"("top_logprobs":[null,{"top":-0.25,"b":-2.0},{"d":-0.5,"c":-1.0}],"text_offset":[0,1,2]})"),
      std::string::npos)
      << out;
  EXPECT_NE(
      out.find(
          R"({"index":1,"text":"ébx","logprobs":{"tokens":["é","b","x"],"token_logprobs":[null,-2.0,-9999.0],)"),
      std::string::npos)
      << out;
  EXPECT_TRUE(ParseJson(out).ok()) << "no key twice";
}

TEST(TextAnswer, OffsetsCountCharactersAndSkipHiddenSpecialTokens) {
  GenerationCall call = Call(Dialect::kText, false);
  call.logprobs = 0;
  const std::string out = Feed(
      call, {Token("", 0, Logprobs("\xe2\x82", -1)), Token("\xe2\x82\xac", 0, Logprobs("\xac", -1)),
             Token("", 0, Logprobs("<end>", -1, {}, true)), Token("z", 0, Logprobs("z", -1)),
             ChoiceEnd(), End({})});
  EXPECT_NE(out.find(R"("text_offset":[0,0,1,1])"), std::string::npos) << out;
  EXPECT_NE(out.find(R"("tokens":["bytes:\\xe2\\x82","bytes:\\xac","<end>","z"])"),
            std::string::npos)
      << out;
}

TEST(GenerateAnswer, IsOneFlatObject) {
  const std::string out =
      Feed(Call(Dialect::kGenerate, false), {Started(1), Token("a"), ChoiceEnd(), End({1, 0, 1})});
  EXPECT_TRUE(out.starts_with(
      R"({"id":"chatcmpl-1","model":"m","text":"a","finish_reason":"stop","stop_reason":null,"usage":{)"))
      << out;
}

// 30 streams of random shape: every frame is one complete event, ids agree, order holds.
TEST(Streams, ThirtyRandomStreamsKeepTheFrameRules) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const bool chat = random.Chance(0.5);
    GenerationCall call = Call(chat ? Dialect::kChat : Dialect::kText, true,
                               chat ? 1 : static_cast<int>(random.Between(1, 3)),
                               static_cast<int>(random.Between(1, 4)));
    call.include_usage = random.Chance(0.5);
    call.logprobs = random.Chance(0.3) ? 2 : -1;
    std::vector<std::pair<int, api::StreamEvent>> events;
    std::map<int, std::string> expected;
    struct Lane {
      int prompt, choice, left;
    };
    std::vector<Lane> lanes;
    for (int p = 0; p < static_cast<int>(call.requests.size()); ++p) {
      events.emplace_back(p, Started(3));
      for (int c = 0; c < call.requests[0].n; ++c)
        lanes.push_back({p, c, static_cast<int>(random.Between(0, 8))});
    }
    int tokens = 0;
    while (!lanes.empty()) {
      const size_t k = random.Below(lanes.size());
      Lane& lane = lanes[k];
      const int index = lane.prompt * call.requests[0].n + lane.choice;
      const std::string text =
          random.Chance(0.2)
              ? ""
              : std::string(1 + random.Below(3), static_cast<char>('a' + random.Below(26))) +
                    "\n\"";
      expected[index] += text;
      if (lane.left-- > 0) {
        events.emplace_back(lane.prompt, Token(text, lane.choice,
                                               call.logprobs >= 0 ? std::optional(Logprobs("t", -1))
                                                                  : std::nullopt));
        ++tokens;
      } else {
        events.emplace_back(lane.prompt, ChoiceEnd(api::FinishReason::kStop, lane.choice, text));
        lanes.erase(lanes.begin() + static_cast<long>(k));
      }
    }
    for (int p = 0; p < static_cast<int>(call.requests.size()); ++p)
      events.emplace_back(p, End({3, 0, tokens}));
    const std::string out = Feed(call, events);

    std::map<int, std::string> texts;
    std::map<int, int> finishes;
    std::set<std::string> ids;
    bool done = false;
    int usages = 0;
    for (size_t at = 0; at < out.size();) {
      ASSERT_TRUE(out.substr(at).starts_with("data: ")) << seed;
      const size_t end = out.find("\n\n", at);
      ASSERT_NE(end, std::string::npos);
      const std::string data = out.substr(at + 6, end - at - 6);
      at = end + 2;
      ASSERT_EQ(data.find('\n'), std::string::npos) << "one line per event";
      if (data == "[DONE]") {
        ASSERT_EQ(at, out.size()) << "nothing follows";
        done = true;
        continue;
      }
      const JsonDocument chunk = ParseJson(data).value();
      ids.insert(std::string(chunk.root().at("id").as_string()));
      ASSERT_EQ(chunk.root().as_object().contains("usage"), call.include_usage);
      for (const Json& choice : chunk.root().at("choices").as_array()) {
        const int index = static_cast<int>(choice.at("index").as_int64());
        ASSERT_FALSE(finishes.contains(index)) << "nothing after the finish of a choice";
        if (!choice.at("finish_reason").is_null()) {
          ++finishes[index];
          continue;
        }
        const bool first = !texts.contains(index);
        const Json& holder = chat ? choice.at("delta") : choice;
        ASSERT_EQ(chat && holder.as_object().contains("role"), chat && first);
        texts[index] += std::string(holder.at(chat ? "content" : "text").as_string());
      }
      if (chunk.root().at("choices").as_array().empty()) {
        ++usages;
        ASSERT_EQ(chunk.root().at("usage").at("completion_tokens").as_int64(),
                  static_cast<int64_t>(tokens) * static_cast<int64_t>(call.requests.size()));
      }
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(ids.size(), 1u);
    EXPECT_EQ(usages, call.include_usage ? 1 : 0);
    EXPECT_EQ(texts, expected) << "seed " << seed;
    EXPECT_EQ(finishes.size(), static_cast<size_t>(call.choices()));
  }
}

}  // namespace
}  // namespace tutti::protocol
