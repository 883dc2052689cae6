// Jobs (U76): streams, cancels, handlers and typed errors, with no server.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "library/testing/models.h"

namespace tutti {
namespace {

using library::testing::Amount;
using library::testing::Greedy;
using library::testing::RealModel;
using library::testing::Sampled;
using library::testing::TinyModel;
using library::testing::TinyOptions;

std::vector<TokenId> Ids(const std::vector<Token>& tokens) {
  std::vector<TokenId> ids;
  for (const Token& token : tokens) {
    if (token.id != Token::kNone) ids.push_back(token.id);
  }
  return ids;
}

void WaitUntilIdle(const Model& model) {
  for (int i = 0; i < 2000 && model.stats().running + model.stats().waiting > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(model.stats().running + model.stats().waiting, 0);
}

class JobTest : public ::testing::Test {
 protected:
  const Model model_ = TinyModel(TinyOptions());
};

TEST_F(JobTest, AStreamHandlerAndAnAnswerAreTheSame) {
  const Completion whole = model_.Generate(Greedy("The sea is", 30)).value();
  EXPECT_EQ(whole.tokens().size(), 30u);
  EXPECT_EQ(whole.finish_reason(), FinishReason::kLength);
  EXPECT_EQ(whole.usage.completion_tokens, 30);
  EXPECT_GT(whole.usage.prompt_tokens, 0);

  Job job = model_.Submit(Greedy("The sea is", 30)).value();
  std::string text;
  std::vector<Token> tokens;
  while (std::optional<Token> token = job.Next()) {
    text += token->text;
    tokens.push_back(*std::move(token));
  }
  EXPECT_EQ(Ids(tokens), whole.tokens());
  EXPECT_EQ(text, whole.text());
  EXPECT_EQ(job.Join().value().text(), whole.text());
  EXPECT_EQ(job.Join().value().tokens(), whole.tokens()) << "again";

  text.clear();
  const Completion handled =
      model_.Generate(Greedy("The sea is", 30), [&](const Token& token) { text += token.text; })
          .value();
  EXPECT_EQ(text, whole.text());
  EXPECT_EQ(handled.tokens(), whole.tokens());
}

TEST_F(JobTest, KeepsAnAnswerInsideItsConstraint) {
  Request request = Greedy("The sea is", 30);
  request.sampling.ignore_eos = false;
  const auto text = [&](Constraint constraint) {
    request.constraint = std::move(constraint);
    return model_.Generate(request).value();
  };
  const Completion answer = text(Constraint::Regex("[ab]{3}"));
  ASSERT_EQ(answer.text().size(), 3u);
  EXPECT_EQ(answer.text().find_first_not_of("ab"), std::string::npos);
  EXPECT_EQ(answer.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(text(Constraint::OneOf({"north"})).text(), "north");
  EXPECT_EQ(text(Constraint::Grammar("root ::= \"so\" \"uth\"")).text(), "south");
  EXPECT_EQ(text(Constraint::JsonSchema(R"({"const": 7})")).text(), "7");
  request.constraint = Constraint::Regex("(");
  const auto refused = model_.Generate(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().param(), "constraint");
}

TEST(ToolsTest, AToolLoopGoesThroughCallAndResult) {
  const Model& model = RealModel();
  Chat chat{.messages = {{Role::kUser, "How warm is it in Oslo?"}},
            .tools = {{.name = "get_weather",
                       .parameters = R"({"type":"object","properties":{"city":{"enum":["Oslo"]}},)"
                                     R"("required":["city"],"additionalProperties":false})"}},
            .tool_choice = {ToolChoice::Kind::kRequired},
            .parallel_tool_calls = false};
  Request request{.prompt = chat, .sampling = {.temperature = 0, .max_tokens = 60}};
  std::string arguments;
  const Completion called = model
                                .Generate(request,
                                          [&](const Token& token) {
                                            for (const ToolCallDelta& delta : token.tool_calls)
                                              arguments += delta.arguments;
                                          })
                                .value();
  EXPECT_EQ(called.finish_reason(), FinishReason::kToolCalls);
  EXPECT_EQ(called.text(), "");
  const std::vector<ToolCall>& calls = called.choices[0].tool_calls;
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "get_weather");
  EXPECT_EQ(arguments, calls[0].arguments);
  EXPECT_NE(arguments.find("\"Oslo\""), std::string::npos) << arguments;

  // The same one token at a time.
  StepState state = model.CreateState(request).value();
  std::string stepped;
  while (!state.done()) {
    for (const ToolCallDelta& delta : model.Step(state).value().tool_calls)
      stepped += delta.arguments;
  }
  EXPECT_EQ(stepped, arguments);

  chat.messages.push_back({.role = Role::kAssistant, .content = "", .tool_calls = calls});
  chat.messages.push_back(
      {.role = Role::kTool, .content = "9 degrees", .tool_call_id = calls[0].id});
  chat.tool_choice = {ToolChoice::Kind::kNone};
  request.prompt = chat;
  const Completion answer = model.Generate(request).value();
  EXPECT_NE(answer.text(), "");
  EXPECT_TRUE(answer.choices[0].tool_calls.empty());

  chat.tool_choice = {ToolChoice::Kind::kNamed, "another"};
  request.prompt = chat;
  const auto refused = model.Generate(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param(), "tool_choice");
}

TEST(ToolsTest, NamesASchemaThatIsNoJsonAndTakesACutCallBack) {
  const Model& model = RealModel();
  Chat chat{.messages = {{Role::kUser, "x"}}, .tools = {{.name = "f", .parameters = "{"}}};
  const auto refusal = [&] {
    const auto answer =
        model.Generate({.prompt = chat, .sampling = {.temperature = 0, .max_tokens = 2}});
    return answer.ok() ? "none" : answer.error().reason() + " " + answer.error().param();
  };
  EXPECT_EQ(refusal(), "invalid_value tools[0].parameters");
  chat.tools[0].parameters.clear();
  chat.messages.push_back(
      {.role = Role::kAssistant, .content = "", .tool_calls = {{"c", "f", R"({"city": "Ro)"}}});
  EXPECT_EQ(refusal(), "none");
}

TEST_F(JobTest, WhatAHandlerThrowsReachesTheCaller) {
  int calls = 0;
  const auto result = model_.Generate(Greedy("hello", 500), [&](const Token&) {
    if (++calls == 3) throw std::out_of_range("the third");
  });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(calls, 3) << "it is not called again";
  EXPECT_EQ(result.error().code(), ErrorCode::kAborted);
  EXPECT_EQ(result.error().reason(), "handler_failed");
  EXPECT_NE(result.error().message().find("the third"), std::string::npos);
  EXPECT_THROW(result.value(), std::out_of_range);
  WaitUntilIdle(model_);
}

TEST_F(JobTest, ASpawnedJobsHandlerFailsIntoJoin) {
  std::atomic<int> calls{0};
  Job thrown = model_
                   .Spawn(Greedy("hello", 500),
                          [&](const Token&) {
                            if (++calls == 2) throw 7;
                          })
                   .value();
  const auto result = thrown.Join();
  EXPECT_EQ(result.error().reason(), "handler_failed");
  EXPECT_EQ(calls.load(), 2);
  EXPECT_THROW(result.value(), int);

  const Error mine(ErrorCode::kDataLoss, "disk_full", "no room for this answer");
  Job returned = model_.Spawn(Greedy("hello", 500), [&](const Token&) { return mine; }).value();
  EXPECT_EQ(returned.Join().error().code(), ErrorCode::kDataLoss);
  EXPECT_EQ(returned.Join().error().reason(), "disk_full");
  EXPECT_EQ(returned.Next(), std::nullopt) << "the handler has the pieces";
  WaitUntilIdle(model_);
}

TEST_F(JobTest, AHandlerThatReturnsFalseStopsWithoutAnError) {
  std::vector<Token> seen;
  const Completion answer = model_
                                .Generate(Greedy("hello", 500),
                                          [&](const Token& token) {
                                            seen.push_back(token);
                                            return seen.size() < 4;
                                          })
                                .value();
  EXPECT_EQ(answer.finish_reason(), FinishReason::kCancelled);
  EXPECT_EQ(answer.tokens(), Ids(seen));
  EXPECT_EQ(answer.tokens().size(), 4u);
}

TEST_F(JobTest, ACancelMidStreamGivesExactlyTheTokensAlreadyYielded) {
  const Completion whole = model_.Generate(Greedy("The sea is", 100)).value();
  for (const size_t after : {size_t{0}, size_t{1}, size_t{7}, size_t{64}}) {
    Job job = model_.Submit(Greedy("The sea is", 100)).value();
    std::vector<Token> seen;
    std::string text;
    while (seen.size() < after) {
      seen.push_back(job.Next().value());
      text += seen.back().text;
    }
    job.Cancel();
    EXPECT_EQ(job.Next(), std::nullopt);
    Token none;
    EXPECT_EQ(job.NextFor(std::chrono::seconds(1), &none), NextResult::kEnd);
    const Completion answer = job.Join().value();
    EXPECT_EQ(answer.finish_reason(), FinishReason::kCancelled);
    EXPECT_EQ(answer.tokens(), Ids(seen));
    EXPECT_EQ(answer.text(), text);
    EXPECT_EQ(answer.usage.completion_tokens, static_cast<int>(after));
    EXPECT_TRUE(std::equal(answer.tokens().begin(), answer.tokens().end(), whole.tokens().begin()));
  }
  WaitUntilIdle(model_);
}

TEST_F(JobTest, ACancelFromAnotherThreadWakesTheReader) {
  const Model big = TinyModel(TinyOptions().KvCacheBytes(64 << 20));
  for (int round = 0; round < 20; ++round) {
    Job job = big.Submit(Greedy("hello", 1900)).value();
    std::vector<Token> seen{job.Next().value()};
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      job.Cancel();
    });
    while (std::optional<Token> token = job.Next()) seen.push_back(*std::move(token));
    canceller.join();
    EXPECT_EQ(job.Join().value().tokens(), Ids(seen));
  }
}

TEST_F(JobTest, ARequestOfZeroTokensEndsCleanly) {
  Job job = model_.Submit(Greedy("hello", 0)).value();
  EXPECT_EQ(job.Next(), std::nullopt);
  const Completion answer = job.Join().value();
  EXPECT_EQ(answer.text(), "");
  EXPECT_TRUE(answer.tokens().empty());
  EXPECT_EQ(answer.finish_reason(), FinishReason::kLength);
  EXPECT_GT(answer.usage.prompt_tokens, 0);
  EXPECT_EQ(answer.usage.completion_tokens, 0);
  int calls = 0;
  EXPECT_TRUE(model_.Generate(Greedy("hello", 0), [&](const Token&) { ++calls; }).ok());
  EXPECT_EQ(calls, 0);
}

TEST_F(JobTest, ThePromptsOwnProbabilitiesCanBeAskedFor) {
  Request request = Greedy("hello", 0);
  request.sampling.prompt_logprobs = 2;
  const Completion answer = model_.Generate(request).value();
  ASSERT_EQ(answer.prompt.size(), static_cast<size_t>(answer.usage.prompt_tokens));
  EXPECT_EQ(answer.prompt[0].chosen.logprob, 0) << "the first has none";
  for (size_t i = 1; i < answer.prompt.size(); ++i) {
    EXPECT_LT(answer.prompt[i].chosen.logprob, 0);
    EXPECT_EQ(answer.prompt[i].top.size(), 2u);
  }
}

// On the real model: a generated one has ended before a busy machine lets this thread look.
TEST_F(JobTest, TwoJobsOverlap) {
  Job first = RealModel().Submit(Greedy("Once upon a time", Amount(400, 100))).value();
  ASSERT_TRUE(first.Next().has_value());
  Job second = RealModel().Submit(Greedy("The sea is", 4)).value();
  EXPECT_EQ(second.Join().value().tokens().size(), 4u);
  EXPECT_FALSE(first.done()) << "the later, shorter one ended while the first was running";
  EXPECT_EQ(first.Join().value().tokens().size(), static_cast<size_t>(Amount(400, 100)));
}

TEST_F(JobTest, AJobNobodyReadsRunsToItsEnd) {
  Job job = model_.Submit(Greedy("hello", 1500)).value();
  for (int i = 0; i < 20000 && !job.done(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(job.done());
  EXPECT_EQ(job.Join().value().tokens().size(), 1500u);
}

TEST_F(JobTest, ADroppedJobIsCancelled) {
  { Job job = model_.Submit(Greedy("hello", 1900)).value(); }
  {
    Job spawned = model_.Spawn(Greedy("hello", 1900), [](const Token&) {}).value();
  }
  WaitUntilIdle(model_);
}

TEST(ModelHandleTest, AJobOutlivesTheHandleOfItsModel) {
  std::optional<Model> model = TinyModel(TinyOptions());
  const Completion whole = model->Generate(Greedy("hello", 50)).value();
  Job job = model->Submit(Greedy("hello", 50)).value();
  StepState state = model->CreateState(Text{"hello"}, 3).value();
  const Model copy = *model;
  model.reset();
  EXPECT_EQ(job.Join().value().tokens(), whole.tokens());
  EXPECT_TRUE(copy.Step(state).ok());
}

TEST_F(JobTest, NextForComesBackInTime) {
  // One sequence, taken: the second job has nothing to say.
  const Model narrow = TinyModel(TinyOptions().MaxNumSeqs(1));
  Job first = narrow.Submit(Greedy("hello", 1500)).value();
  ASSERT_TRUE(first.Next().has_value());
  Job second = narrow.Submit(Greedy("hello", 2)).value();
  Token token;
  using std::chrono::milliseconds;
  for (const milliseconds none : {milliseconds(0), milliseconds(-1), milliseconds::min()})
    EXPECT_EQ(second.NextFor(none, &token), NextResult::kTimeout);
  first.Cancel();
  EXPECT_EQ(second.NextFor(std::chrono::hours(1), &token), NextResult::kToken);
  EXPECT_EQ(second.NextFor(milliseconds::max(), &token), NextResult::kToken);
  EXPECT_EQ(second.NextFor(std::chrono::hours(1), &token), NextResult::kEnd);
}

TEST_F(JobTest, EveryParameterReachesTheModel) {
  const Completion plain = model_.Generate(Greedy("hello", 12)).value();
  Request request = Greedy("hello", 12);
  request.sampling.logit_bias = {{100, 100.0f}};
  EXPECT_EQ(model_.Generate(request).value().tokens(), std::vector<TokenId>(12, 100));
  request = Greedy("hello", 12);
  request.sampling.banned_token_ids = {plain.tokens()[0]};
  EXPECT_NE(model_.Generate(request).value().tokens()[0], plain.tokens()[0]);
  request = Greedy("hello", 12);
  request.sampling.allowed_token_ids = {50, 51};
  for (const TokenId id : model_.Generate(request).value().tokens())
    EXPECT_TRUE(id == 50 || id == 51);
  request = Greedy("hello", 12);
  request.sampling.stop_token_ids = {plain.tokens()[3]};
  const Completion stopped = model_.Generate(request).value();
  EXPECT_EQ(stopped.finish_reason(), FinishReason::kStop);
  EXPECT_EQ(std::get<TokenId>(stopped.choices[0].stop_reason), plain.tokens()[3]);
  request = Greedy("hello", 5);
  request.sampling.logprobs = 3;
  const Completion scored = model_.Generate(request).value();
  ASSERT_EQ(scored.choices[0].logprobs.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const TokenLogprobs& at = scored.choices[0].logprobs[i];
    ASSERT_EQ(at.top.size(), 3u);
    EXPECT_EQ(at.chosen.token, scored.tokens()[i]);
    EXPECT_EQ(at.top[0].token, at.chosen.token) << "greedy takes the most probable";
    EXPECT_LE(at.top[1].logprob, at.top[0].logprob);
  }
  // Hot enough that seeds differ; equal seeds agree, and each parameter of the draw changes it.
  const auto drawn = [&](auto change) {
    Request hot = Sampled("hello", 40, 1);
    hot.sampling.temperature = 2;
    hot.sampling.top_p = 1;
    change(hot.sampling);
    return model_.Generate(hot).value().tokens();
  };
  const auto base = drawn([](SamplingParams&) {});
  EXPECT_EQ(drawn([](SamplingParams&) {}), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.seed = 2; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.temperature = 0.2; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.top_k = 2; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.top_p = 0.05; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.min_p = 0.9; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.repetition_penalty = 10; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.presence_penalty = 2; }), base);
  EXPECT_NE(drawn([](SamplingParams& s) { s.frequency_penalty = 2; }), base);
}

TEST_F(JobTest, SeveralAnswersShareAPrompt) {
  Request request = Sampled("hello", 10, 4);
  request.sampling.temperature = 2;
  request.n = 3;
  const Completion answer = model_.Generate(request).value();
  ASSERT_EQ(answer.choices.size(), 3u);
  EXPECT_EQ(answer.usage.completion_tokens, 30);
  EXPECT_NE(answer.choices[0].tokens, answer.choices[1].tokens);
  request.n = 1;
  EXPECT_EQ(model_.Generate(request).value().tokens(), answer.choices[0].tokens);
}

TEST_F(JobTest, TokensTextAndChatAreThreeWaysToAsk) {
  const Text text{"The sea is"};
  const std::vector<TokenId> ids = model_.Tokenize(text).value();
  EXPECT_EQ(model_.Detokenize(ids).value(), "The sea is");
  Request by_ids = Greedy("", 10);
  by_ids.prompt = Tokens{ids};
  EXPECT_EQ(model_.Generate(by_ids).value().tokens(),
            model_.Generate(Greedy("The sea is", 10)).value().tokens());

  const Chat chat{{{Role::kSystem, "Be brief."}, {Role::kUser, "Hi"}}};
  const std::string rendered = RealModel().Render(chat).value();
  EXPECT_NE(rendered.find("Be brief."), std::string::npos);
  EXPECT_NE(rendered.find("<|im_start|>assistant"), std::string::npos);
  Request by_chat = Greedy("", 6), by_text = Greedy(rendered, 6);
  by_chat.prompt = chat;
  EXPECT_EQ(RealModel().Generate(by_chat).value().tokens(),
            RealModel().Generate(by_text).value().tokens());
}

TEST_F(JobTest, WhatIsWrongIsToldByNameAndField) {
  Request request = Greedy("hello", 4);
  request.sampling.temperature = 3;
  Error error = model_.Submit(request).error();
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.reason(), "invalid_value");
  EXPECT_EQ(error.param(), "temperature");
  EXPECT_EQ(model_.Generate(Greedy("", 4)).error().reason(), "empty_prompt");
  EXPECT_EQ(model_.Generate(Greedy("hello", 1 << 20)).error().reason(), "context_length_exceeded");
  EXPECT_EQ(model_.Generate(Greedy(std::string(200'000, 'b'), 4)).error().reason(),
            "context_length_exceeded");
  request = Greedy("", 4);
  request.prompt = Tokens{{1 << 30}};
  EXPECT_EQ(model_.Generate(request).error().reason(), "token_out_of_range");
  EXPECT_EQ(model_.Detokenize({-1}).error().reason(), "token_out_of_range");
  request = Greedy("hello", 4);
  request.n = 9;
  EXPECT_EQ(model_.Generate(request).error().param(), "n");
  request.n = -1;
  EXPECT_EQ(model_.Generate(request).error().param(), "n");
  request = Greedy("hello", 1500);
  using std::chrono::milliseconds;
  for (const milliseconds late : {milliseconds(1), milliseconds(-1), milliseconds::min()}) {
    request.timeout = late;
    EXPECT_EQ(model_.Generate(request).error().code(), ErrorCode::kDeadlineExceeded);
  }
  request = Greedy("hello", 4);
  request.timeout = milliseconds::max();
  EXPECT_TRUE(model_.Generate(request).ok());
  try {
    model_.Generate(Greedy("", 4)).value();
    FAIL() << "value() of a failure throws";
  } catch (const Exception& thrown) {
    EXPECT_EQ(thrown.error().reason(), "empty_prompt");
  }
}

TEST(ModelOptionsTest, WrongOptionsAndFilesAreRefusedByLoad) {
  EXPECT_EQ(Model::Load(ModelOptions("/no/such/file.gguf")).error().reason(), "model_not_found");
  const Error typo = Model::Load(ModelOptions().Set("max-num-sequs", "8")).error();
  EXPECT_EQ(typo.reason(), "unknown_parameter");
  EXPECT_EQ(typo.message(), "no model option is called max-num-sequs; did you mean max-num-seqs?");
  EXPECT_EQ(Model::Load(ModelOptions().MaxNumSeqs(0)).error().message(),
            "option: max-num-seqs must be between 1 and 1024, not \"0\"");
  EXPECT_EQ(Model::Load(ModelOptions().Set("port", "8080")).error().reason(), "unknown_parameter");
  EXPECT_EQ(Model::Load(ModelOptions().Threads(0)).error().reason(), "invalid_value");
  EXPECT_EQ(Model::Load(ModelOptions().Isa("abacus")).error().reason(), "invalid_value");
  const std::string junk(4096, 'x');
  const gguf::testing::TempFile file(std::as_bytes(std::span(junk)));
  EXPECT_EQ(Model::Load(ModelOptions(file.path())).error().reason().substr(0, 4), "gguf");
}

TEST(ModelOptionsTest, OptionsReachTheModel) {
  const Model model = TinyModel(
      TinyOptions().MaxNumSeqs(3).Context(96).Schedule(Strategy::kBlocking).Isa("scalar"));
  EXPECT_EQ(model.stats().max_num_seqs, 1) << "blocking runs one at a time";
  EXPECT_EQ(model.info().context, 96);
  EXPECT_EQ(model.info().name, "tiny");
  EXPECT_NE(model.info().summary.find("scalar"), std::string::npos);
  EXPECT_EQ(TinyModel(TinyOptions().MaxNumSeqs(3)).stats().max_num_seqs, 3);
}

TEST(ModelOptionsTest, AThrowingProgressCallbackIsAnErrorOfLoad) {
  const auto options =
      TinyOptions().OnProgress([](size_t, size_t) { throw std::runtime_error("no"); });
  EXPECT_THROW(TinyModel(options), std::runtime_error);
}

TEST(ModelQueueTest, AFullQueueIsATypedErrorWithATimeToComeBack) {
  // A real one, whose jobs last.
  const Model model = Model::Load(ModelOptions(support::DefaultModelPath())
                                      .MaxNumSeqs(1)
                                      .Queue(1)
                                      .KvCacheBytes(size_t{256} << 20))
                          .value();
  std::vector<Job> running;
  for (int i = 0; i < 2; ++i) running.push_back(model.Submit(Greedy("hello", 1900)).value());
  const Error error = model.Submit(Greedy("hello", 4)).error();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error.reason(), "queue_full");
  EXPECT_TRUE(error.retry_after().has_value());
}

}  // namespace
}  // namespace tutti
