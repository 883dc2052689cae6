// The service tutti.v1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/v1/tutti.pb.h>

#include <thread>

#include "api/validate.h"
#include "server/grpc/testing/server_fixture.h"

namespace tutti::rpc {
namespace {

using kserve::testing::FakeEncoding;
using testing::CallOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kTutti;
using testing::Outcome;

class TuttiServiceTest : public testing::ServerTest {
 protected:
  void SetUp() override { StartServer(); }

  Outcome Embed(const v1::EmbedRequest& request, v1::EmbedResponse* response = nullptr,
                const CallOptions& options = {}) {
    v1::EmbedResponse ignored;
    return client_->Unary(kTutti + "Embed", request, response == nullptr ? &ignored : response,
                          options);
  }
  Outcome Score(const v1::ScoreRequest& request, v1::ScoreResponse* response = nullptr) {
    v1::ScoreResponse ignored;
    return client_->Unary(kTutti + "Score", request, response == nullptr ? &ignored : response);
  }
  v1::MetricsResponse Metrics(bool reset = false) {
    v1::MetricsRequest request;
    request.set_reset(reset);
    v1::MetricsResponse response;
    EXPECT_TRUE(client_->Unary(kTutti + "Metrics", request, &response).ok());
    return response;
  }
};

TEST_F(TuttiServiceTest, ThirtyTwoTextsAreThirtyTwoVectorsInOrder) {
  v1::EmbedRequest request;
  for (int i = 0; i < 32; ++i) request.add_texts("text " + std::to_string(i * i));
  v1::EmbedResponse response;
  const Outcome outcome = Embed(request, &response);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(response.model(), "minilm");
  EXPECT_EQ(response.count(), 32);
  EXPECT_EQ(response.dimension(), 4);
  ASSERT_EQ(response.vectors_size(), 32);
  ASSERT_EQ(response.tokens_size(), 32);
  for (int i = 0; i < 32; ++i) {
    const auto& values = response.vectors(i).values();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
              kserve::testing::VectorOf(request.texts(i)));
  }
}

TEST_F(TuttiServiceTest, PairsAreScoredInOrder) {
  v1::ScoreRequest pairs;
  for (const char* const document : {"abc", "ab", "x"}) {
    auto& pair = *pairs.add_pairs();
    pair.set_query("abcd");
    pair.set_document(document);
  }
  v1::ScoreResponse response;
  ASSERT_TRUE(Score(pairs, &response).ok());
  EXPECT_EQ(response.count(), 3);
  EXPECT_THAT(response.scores(), ElementsAre(3, 2, 0));
  EXPECT_THAT(response.labels(), ElementsAre("relevance"));
  v1::ScoreRequest listed;
  listed.set_query("abcd");
  for (const char* const document : {"abc", "ab", "x"}) listed.add_documents(document);
  v1::ScoreResponse same;
  ASSERT_TRUE(Score(listed, &same).ok());
  EXPECT_EQ(same.SerializeAsString(), response.SerializeAsString());
}

TEST_F(TuttiServiceTest, EmptyListsTooManyTextsAndOtherFaultsAreInvalid) {
  const auto code = [&](const v1::EmbedRequest& request) { return Embed(request).code; };
  EXPECT_EQ(code(v1::EmbedRequest()), 3);
  v1::EmbedRequest many;
  for (int i = 0; i < 2048; ++i) many.add_texts("a");
  EXPECT_EQ(code(many), 0);
  many.add_texts("a");
  EXPECT_THAT(Embed(many).message, HasSubstr("1 to 2048 texts, not 2049"));
  v1::EmbedRequest empty;
  empty.add_texts("");
  EXPECT_EQ(Embed(empty).Trailer("tutti-error-code"), "empty_prompt");
  v1::EmbedRequest unknown;
  unknown.add_texts("a");
  unknown.set_model("nobody");
  EXPECT_EQ(Embed(unknown).code, 5);
  v1::EmbedRequest truncation;
  truncation.add_texts("a");
  truncation.set_truncation(static_cast<v1::Truncation>(77));
  EXPECT_EQ(code(truncation), 3);
  EXPECT_EQ(Score(v1::ScoreRequest()).code, 3);
  v1::ScoreRequest both;
  both.set_query("q");
  both.add_documents("d");
  both.add_pairs();
  EXPECT_EQ(Score(both).code, 3);
  // Text that is no UTF-8 is no message of proto3.
  v1::EmbedRequest bytes;
  bytes.add_texts("\xff");
  EXPECT_EQ(client_->UnaryBytes(kTutti + "Embed", std::string("\x12\x01\xff", 3), nullptr).code, 3);
}

// 2,048 copies of a query of megabytes once were made before anyone looked.
TEST_F(TuttiServiceTest, AQueryCountsOnceForEachOfItsDocuments) {
  v1::ScoreRequest request;
  request.set_query(std::string(api::kMaxPairBytes / 2048 - 1, 'q'));
  for (int i = 0; i < 2048; ++i) request.add_documents("d");
  EXPECT_TRUE(Score(request).ok());
  request.mutable_query()->push_back('q');
  const Outcome outcome = Score(request);
  EXPECT_EQ(outcome.code, 8);
  EXPECT_EQ(outcome.Trailer("tutti-error-code"), "request_too_large");
  EXPECT_EQ(inference_.encodings(), 1u) << "it did not reach the inference API";
}

// Through this server a chat model that gives vectors too, or a classifier, could be the one.
TEST_F(TuttiServiceTest, WithoutANameTheModelIsThatOfTheOtherServers) {
  api::EncoderInfo vectors, classes, nli;
  vectors.width = 4;
  classes.labels = {"good"};
  nli.pairs = true;
  nli.labels = {"follows", "contradicts", "neither"};
  const auto put_first = [this](const char* id, bool generates, const api::EncoderInfo& encoder) {
    kserve::testing::FakeModel model = kserve::testing::MakeFakeModel(id, generates);
    model.info.encoder = encoder;
    inference_.PutFirst(model);
  };
  put_first("classes1", false, classes);
  put_first("nli", false, nli);
  put_first("chat1", true, vectors);
  v1::EmbedRequest embed;
  embed.add_texts("a");
  v1::EmbedResponse embedded;
  const Outcome first = Embed(embed, &embedded);
  ASSERT_TRUE(first.ok()) << first.message;
  EXPECT_EQ(embedded.model(), "minilm");
  EXPECT_EQ(inference_.Encoding(0)->request.model, "minilm") << "named before it is asked";
  v1::ScoreRequest score;
  score.set_query("a");
  score.add_documents("b");
  v1::ScoreResponse scored;
  const Outcome second = Score(score, &scored);
  ASSERT_TRUE(second.ok()) << second.message;
  EXPECT_EQ(scored.model(), "cross");
  EXPECT_THAT(scored.labels(), ElementsAre("relevance"));
  EXPECT_EQ(inference_.Encoding(1)->request.model, "cross");
  embed.set_model("org/minilm");
  ASSERT_TRUE(Embed(embed, &embedded).ok());
  EXPECT_EQ(embedded.model(), "minilm") << "an alias is told by the model's own name";
}

// Regression: the error named "input[1]", a field that no client has.
TEST_F(TuttiServiceTest, ARefusalOfTheInferenceApiNamesTheClientsField) {
  std::string blamed;
  bool later = false;
  inference_.on_encode = [&](const std::shared_ptr<FakeEncoding>& encoding) {
    Status refusal = InvalidArgument("context_length_exceeded", "too long").WithParam(blamed);
    if (!later) return refusal;
    encoding->Finish(std::move(refusal));
    return OkStatus();
  };
  v1::EmbedRequest texts;
  v1::ScoreRequest documents, pairs;
  documents.set_query("q");
  for (int i = 0; i < 2; ++i) {
    texts.add_texts("a");
    documents.add_documents("a");
    pairs.add_pairs();
  }
  for (const bool at_the_end : {false, true}) {
    later = at_the_end;
    blamed = "input[1]";
    EXPECT_THAT(Embed(texts).details, HasSubstr("texts[1]"));
    EXPECT_THAT(Score(documents).details, HasSubstr("documents[1]"));
    EXPECT_THAT(Score(pairs).details, HasSubstr("pairs[1]"));
    blamed = "truncate_prompt_tokens";
    EXPECT_THAT(Embed(texts).details, HasSubstr("truncate_tokens"));
  }
}

TEST_F(TuttiServiceTest, FieldsOfARequestReachInference) {
  v1::EmbedRequest request;
  request.add_texts("a");
  request.set_model("minilm");
  request.set_normalize(false);
  request.set_dimensions(2);
  request.set_prompt_name("query");
  request.set_truncation(v1::TRUNCATION_LEFT);
  request.set_truncate_tokens(9);
  CallOptions options;
  options.metadata = {{"x-request-id", "my-id"}};
  options.timeout = std::chrono::seconds(100);
  const Outcome outcome = Embed(request, nullptr, options);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(outcome.Trailer("x-request-id"), "my-id");
  const api::EncodeRequest& got = inference_.Encoding(0)->request;
  EXPECT_EQ(got.request_id, "my-id");
  EXPECT_EQ(got.normalize, false);
  EXPECT_EQ(got.dimensions, 2);
  EXPECT_EQ(got.prompt_name, "query");
  EXPECT_EQ(got.truncation, api::Truncation::kLeft);
  EXPECT_EQ(got.truncate_tokens, 9);
  const Duration left = got.deadline - clock_.Now();
  EXPECT_GT(left, std::chrono::seconds(30));
  EXPECT_LE(left, std::chrono::seconds(110));  // the library rounds it
}

TEST_F(TuttiServiceTest, SeedMinusOneAsksForARandomOneAsOverHttp) {
  v1::GenerateRequest request;
  request.set_prompt("Once");
  request.set_seed(-1);
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  call->WritesDone();
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_FALSE(generation->request.sampling.seed.has_value());
  generation->Answer({"x"});
}

TEST_F(TuttiServiceTest, AGenerationIsAStreamOfText) {
  v1::GenerateRequest request;
  request.set_prompt("Once");
  request.set_max_tokens(9);
  request.set_temperature(0);
  request.set_seed(5);
  request.set_top_k(3);
  request.add_stop("END");
  (*request.mutable_logit_bias())[7] = -1.5f;
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  call->WritesDone();
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(std::get<api::TextPrompt>(generation->request.prompt).text, "Once");
  const api::SamplingParams& sampling = generation->request.sampling;
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.temperature, 0);
  EXPECT_EQ(sampling.seed, 5);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_THAT(sampling.stop, ElementsAre("END"));
  ASSERT_EQ(sampling.logit_bias.size(), 1u);
  generation->Started();
  generation->Token(" upon");
  generation->Wake();
  v1::GenerateResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.text(), " upon");
  EXPECT_FALSE(response.has_usage());
  generation->Token(" a time");
  generation->ChoiceEnd(api::FinishReason::kLength);
  generation->End();
  generation->Wake();
  std::string rest, reason;
  while (call->Read(&response)) {
    rest += response.text();
    if (!response.finish_reason().empty()) reason = response.finish_reason();
  }
  EXPECT_EQ(rest, " a time");
  EXPECT_EQ(reason, "length");
  EXPECT_EQ(response.usage().prompt_tokens(), 3);
  EXPECT_EQ(response.usage().completion_tokens(), 2);
  EXPECT_TRUE(call->Finish().ok());
}

TEST_F(TuttiServiceTest, AConversationHasRolesAndTemplateOptions) {
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"yes"});
    return OkStatus();
  };
  v1::GenerateRequest request;
  const auto add = [&](const char* role, const char* content) {
    auto& message = *request.mutable_conversation()->add_messages();
    message.set_role(role);
    message.set_content(content);
  };
  const auto ask = [&] {
    const auto call = client_->Start(kTutti + "Generate");
    (void)call->Write(request);
    call->WritesDone();
    v1::GenerateResponse response;
    std::string text;
    while (call->Read(&response)) text += response.text();
    const Outcome outcome = call->Finish();
    return outcome.ok() ? text : outcome.Trailer("tutti-error-code");
  };
  add("system", "be brief");
  add("user", "hello");
  EXPECT_EQ(ask(), "yes");
  const auto& chat = std::get<api::ChatPrompt>(inference_.Generation(0)->request.prompt);
  EXPECT_EQ(chat.messages.at(0).role, api::Role::kSystem);
  EXPECT_EQ(chat.messages.at(1).content, "hello");
  EXPECT_FALSE(inference_.Generation(0)->request.sampling.max_tokens.has_value());
  request.set_n(2);
  EXPECT_EQ(ask(), "yesyes");
  request.set_n(9);
  EXPECT_EQ(ask(), "invalid_value");
  request.set_n(1);
  request.set_temperature(7);
  EXPECT_EQ(ask(), "invalid_value");
  request.clear_temperature();
  request.set_max_tokens(0);
  EXPECT_EQ(ask(), "invalid_value");
  request.clear_max_tokens();
  add("assistant", "well");  // answered with a new message
  EXPECT_EQ(ask(), "yes");
  auto& options = *request.mutable_conversation()->mutable_chat_template_kwargs();
  options = R"({"b":1, "a":2})";
  EXPECT_EQ(ask(), "yes");
  const auto& last = inference_.Generation(inference_.generations() - 1)->request.prompt;
  EXPECT_EQ(std::get<api::ChatPrompt>(last).template_arguments, R"({"a":2,"b":1})");
  options = "[]";
  EXPECT_EQ(ask(), "invalid_value");
  options.clear();
  add("god", "no");
  EXPECT_EQ(ask(), "invalid_value");
  request.clear_conversation();
  EXPECT_EQ(ask(), "missing_required_parameter");
  request.mutable_conversation();
  EXPECT_EQ(ask(), "empty_prompt");
}

TEST_F(TuttiServiceTest, PassesToolsToTheModelAndCallsToTheClient) {
  v1::GenerateRequest request;
  v1::Conversation& conversation = *request.mutable_conversation();
  v1::Tool& tool = *conversation.add_tools();
  tool.set_name("weather");
  tool.set_description("Weather at a place");
  tool.set_parameters(R"({"type":"object"})");
  tool.set_strict(true);
  conversation.mutable_tool_choice()->set_function("weather");
  conversation.set_parallel_tool_calls(false);
  v1::ChatMessage& question = *conversation.add_messages();
  question.set_role("user");
  question.set_content("Is it warm?");
  v1::ChatMessage& call = *conversation.add_messages();
  call.set_role("assistant");
  call.set_reasoning("I must look.");
  v1::ToolCall& made = *call.add_tool_calls();
  made.set_id("call_0");
  made.set_name("weather");
  made.set_arguments(R"({"city":"Oslo"})");
  v1::ChatMessage& result = *conversation.add_messages();
  result.set_role("tool");
  result.set_tool_call_id("call_0");
  result.set_content("9 degrees");
  const auto stream = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  const auto generation = inference_.Generation(0);
  ASSERT_NE(generation, nullptr);
  const auto& chat = std::get<api::ChatPrompt>(generation->request.prompt);
  EXPECT_THAT(chat.tools, ElementsAre(api::Tool{.name = "weather",
                                                .description = "Weather at a place",
                                                .parameters = R"({"type":"object"})",
                                                .strict = true,
                                                .param = "tools[0]"}));
  EXPECT_EQ(chat.tool_choice, (api::ToolChoice{api::ToolChoice::Kind::kNamed, "weather"}));
  EXPECT_FALSE(chat.parallel_tool_calls);
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[1].reasoning, "I must look.");
  EXPECT_THAT(chat.messages[1].tool_calls,
              ElementsAre(api::ToolCall{"call_0", "weather", R"({"city":"Oslo"})"}));
  EXPECT_EQ(chat.messages[2].tool_call_id, "call_0");

  generation->Started();
  generation->Calls({{0, "call_1", "weather", ""}});
  generation->Calls({{0, "", "", R"({"city":)"}});
  generation->Calls({{0, "", "", R"("Oslo"})"}, {1, "call_2", "weather", "{}"}});
  generation->ChoiceEnd(api::FinishReason::kToolCalls);
  generation->usage.reasoning_tokens = 2;
  generation->End();
  generation->Wake();
  std::vector<api::ToolCall> calls(2);
  std::string reason;
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
    for (const v1::ToolCall& piece : response.tool_calls()) {
      ASSERT_LT(piece.index(), 2);
      api::ToolCall& whole = calls[static_cast<size_t>(piece.index())];
      whole.id += piece.id();
      whole.name += piece.name();
      whole.arguments += piece.arguments();
    }
    reason += response.finish_reason();
  }
  EXPECT_THAT(calls, ElementsAre(api::ToolCall{"call_1", "weather", R"({"city":"Oslo"})"},
                                 api::ToolCall{"call_2", "weather", "{}"}));
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_EQ(response.usage().reasoning_tokens(), 2);
}

TEST_F(TuttiServiceTest, NamesTheFieldOfAToolThatIsWrong) {
  v1::GenerateRequest request;
  const auto refusal = [&] {
    const auto call = client_->Start(kTutti + "Generate");
    (void)call->Write(request);
    call->WritesDone();
    v1::GenerateResponse response;
    while (call->Read(&response)) {
    }
    const Outcome outcome = call->Finish();
    return outcome.Trailer("tutti-error-code") + " " + outcome.details;
  };
  const auto expect = [&](const char* code, const char* field) {
    EXPECT_THAT(refusal(), ::testing::AllOf(HasSubstr(code), HasSubstr(field)));
  };
  v1::Conversation& conversation = *request.mutable_conversation();
  v1::ChatMessage& message = *conversation.add_messages();
  message.set_role("user");
  message.set_content("x");
  conversation.mutable_tool_choice()->set_function("f");
  expect("invalid_value", "tool_choice");
  v1::Tool& tool = *conversation.add_tools();
  tool.set_name("f");
  tool.set_name("two words");
  expect("invalid_value", "tools[0].name");
  conversation.clear_tools();
  conversation.clear_tool_choice();
  conversation.mutable_tool_choice()->set_mode(static_cast<v1::ToolChoice::Mode>(9));
  expect("invalid_value", "tool_choice");
  conversation.clear_tool_choice();
  v1::ToolCall& call = *message.add_tool_calls();
  expect("invalid_value", "messages[0]");
  message.set_role("assistant");
  expect("missing_required_parameter", "messages[0].tool_calls[0].id");
  call.set_id("c");
  expect("missing_required_parameter", "messages[0].tool_calls[0].name");
  message.clear_tool_calls();
  message.set_role("tool");
  expect("missing_required_parameter", "messages[0].tool_call_id");
}

TEST_F(TuttiServiceTest, PassesConstraintsAndTheReasoningBudget) {
  using Kind = api::Constraint::Kind;
  inference_.on_generate = [](const std::shared_ptr<kserve::testing::FakeGeneration>& generation) {
    generation->Answer({"x"});
    return OkStatus();
  };
  v1::GenerateRequest request;
  request.set_prompt("x");
  size_t asked = 0;
  const auto constraint = [&]() -> std::optional<api::Constraint> {
    const auto call = client_->Start(kTutti + "Generate");
    (void)call->Write(request);
    call->WritesDone();
    v1::GenerateResponse response;
    while (call->Read(&response)) {
    }
    EXPECT_TRUE(call->Finish().ok());
    return inference_.Generation(asked++)->request.constraint;
  };
  EXPECT_FALSE(constraint().has_value());
  request.set_json_object(false);
  EXPECT_FALSE(constraint().has_value());
  request.set_json_object(true);
  EXPECT_EQ(constraint()->kind, Kind::kJsonObject);
  request.set_json_schema("{}");
  EXPECT_EQ(constraint()->kind, Kind::kJsonSchema);
  request.set_regex("a+");
  EXPECT_EQ(constraint()->text, "a+");
  EXPECT_EQ(inference_.Generation(asked - 1)->request.constraint->kind, Kind::kRegex);
  request.set_grammar("root ::= \"a\"");
  EXPECT_EQ(constraint()->kind, Kind::kGrammar);
  request.set_structural_tag("{}");
  EXPECT_EQ(constraint()->kind, Kind::kStructuralTag);
  request.mutable_choice()->add_values("yes");
  request.mutable_choice()->add_values("no");
  request.set_thinking_token_budget(5);
  EXPECT_THAT(constraint()->choices, ElementsAre("yes", "no"));
  EXPECT_EQ(inference_.Generation(asked - 1)->request.max_reasoning_tokens, 5);
  for (const int budget : {-1, 0}) {
    request.set_thinking_token_budget(budget);
    if (budget == 0) request.mutable_choice()->clear_values();
    const auto call = client_->Start(kTutti + "Generate");
    (void)call->Write(request);
    call->WritesDone();
    v1::GenerateResponse response;
    while (call->Read(&response)) {
    }
    EXPECT_THAT(call->Finish().details,
                HasSubstr(budget == 0 ? "choice" : "thinking_token_budget"));
  }
}

TEST_F(TuttiServiceTest, AGenerationThatFailsSaysWhyAndOneThatIsCancelledIsFreed) {
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto first = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(first->Write(request));
  const auto failing = inference_.Generation(0);
  failing->Started();
  failing->Token("a");
  failing->End(Unavailable("kv_exhausted", "no more memory"));
  failing->Wake();
  v1::GenerateResponse response;
  ASSERT_TRUE(first->Read(&response));
  EXPECT_FALSE(first->Read(&response));
  const Outcome outcome = first->Finish();
  EXPECT_EQ(outcome.code, 14);
  EXPECT_EQ(outcome.Trailer("tutti-error-code"), "kv_exhausted");
  EXPECT_THAT(outcome.details, HasSubstr("google.rpc.RetryInfo"));

  auto second = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(second->Write(request));
  ASSERT_NE(inference_.Generation(1), nullptr);
  second.reset();
  EXPECT_TRUE(Eventually([&] { return inference_.Generation(1)->cancelled.load(); }));
}

TEST_F(TuttiServiceTest, AReaderThatStopsHoldsBackItsModel) {
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto call = client_->Start(kTutti + "Generate");
  ASSERT_TRUE(call->Write(request));
  const auto generation = inference_.Generation(0);
  generation->Started();
  // A writer that pauses for unread bytes, as the engine does, writes no more than the windows and
  // buffers on the way hold.
  const std::string piece(4096, 'x');
  size_t written = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    if (generation->stream->unread_bytes() > (48 << 10)) {
      usleep(1000);
      continue;
    }
    generation->Token(piece);
    generation->Wake();
    written += piece.size();
  }
  EXPECT_GT(generation->stream->unread_bytes(), size_t{48} << 10);
  EXPECT_LT(written, size_t{1} << 20);
  v1::GenerateResponse response;  // and goes on when it is read
  for (size_t read = 0; read < written; read += response.text().size()) {
    ASSERT_TRUE(call->Read(&response));
  }
}

TEST_F(TuttiServiceTest, MetricsCountTheCallsOfAWindow) {
  (void)Metrics(true);
  inference_.on_encode = [](const std::shared_ptr<FakeEncoding>& encoding) {
    std::thread([encoding] {
      usleep(4000);
      encoding->Answer();
    }).detach();
    return OkStatus();
  };
  v1::EmbedRequest request;
  request.add_texts("a");
  constexpr int kCalls = 50;
  std::vector<double> took;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(Embed(request).ok());
    took.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  EXPECT_NE(Embed(v1::EmbedRequest()).code, 0);
  const double took_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::sort(took.begin(), took.end());
  const v1::MetricsResponse metrics = Metrics();
  EXPECT_EQ(metrics.total().count(), kCalls + 1u);
  ASSERT_EQ(metrics.methods_size(), 1);
  const v1::CallMetrics& embed = metrics.methods(0);
  EXPECT_EQ(embed.method(), "/tutti.v1.Tutti/Embed");
  EXPECT_EQ(embed.count(), kCalls + 1u);
  EXPECT_EQ(embed.errors(), 1u);
  EXPECT_GE(embed.p50_ms(), 4.0);
  EXPECT_LE(embed.p50_ms(), took[kCalls / 2] * 1.05);
  EXPECT_LE(embed.p99_ms(), took[kCalls - 1] * 1.05);
  EXPECT_GE(embed.max_ms(), embed.p99_ms());
  EXPECT_NEAR(embed.throughput() * metrics.window_s(), kCalls + 1, 0.5);
  EXPECT_GE(metrics.window_s(), took_s * 0.9);
  (void)Metrics(true);
  EXPECT_EQ(Metrics().total().count(), 0u);
  EXPECT_EQ(Metrics().methods_size(), 0);
}

}  // namespace
}  // namespace tutti::rpc
