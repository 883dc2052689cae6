// The C interface: the same answers as the C++ one, codes for every failure, and NULL anywhere.
#include "tutti/c_api.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "test_paths.h"

namespace tutti {
namespace {

class CApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const gguf::testing::TempFile file(gguf::testing::MakeCheckpoint({}).Build());
    tutti_options* options = tutti_options_new(file.path().c_str());
    tutti_options_set(options, "threads", "1");
    tutti_options_set(options, "kv-cache-bytes", "16MiB");
    ASSERT_EQ(tutti_model_load(options, &model_, &error_), TUTTI_OK) << Message();
    EXPECT_EQ(error_, nullptr);
    tutti_options_free(options);
    request_ = tutti_request_new();
    tutti_request_text(request_, "hello");
    for (const auto& [name, value] :
         {std::pair("temperature", 0), std::pair("max_tokens", 20), std::pair("ignore_eos", 1)}) {
      ASSERT_EQ(tutti_request_set(request_, name, value), TUTTI_OK);
    }
  }
  void TearDown() override {
    tutti_error_free(error_);
    tutti_completion_free(answer_);
    tutti_request_free(request_);
    tutti_model_free(model_);
  }
  std::string Message() const { return tutti_error_message(error_); }
  std::string Reason() const { return tutti_error_reason(error_); }
  std::string Text() const { return tutti_completion_text(answer_, 0); }
  std::vector<int32_t> Tokens() const {
    size_t count = 0;
    const int32_t* ids = tutti_completion_tokens(answer_, 0, &count);
    return {ids, ids + count};
  }

  tutti_model* model_ = nullptr;
  tutti_request* request_ = nullptr;
  tutti_completion* answer_ = nullptr;
  tutti_error* error_ = nullptr;
};

TEST_F(CApiTest, KeepsAnAnswerInsideItsConstraint) {
  const auto answer = [&]() -> std::string {
    tutti_completion_free(answer_);
    answer_ = nullptr;
    return tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_) == TUTTI_OK
               ? Text()
               : Message();
  };
  tutti_request_set(request_, "ignore_eos", 0);
  ASSERT_EQ(tutti_request_constrain(request_, TUTTI_REGEX, "[ab]{3}"), TUTTI_OK);
  EXPECT_EQ(answer().find_first_not_of("ab"), std::string::npos);
  EXPECT_EQ(Text().size(), 3u);
  EXPECT_EQ(tutti_request_constrain(request_, static_cast<tutti_constraint>(9), "a"),
            TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_request_constrain(request_, TUTTI_CHOICE, "north"), TUTTI_OK);
  EXPECT_EQ(answer(), "north");
  ASSERT_EQ(tutti_request_constrain(request_, TUTTI_CHOICE, "south"), TUTTI_OK);
  EXPECT_TRUE(answer() == "north" || Text() == "south") << Text();
  ASSERT_EQ(tutti_request_constrain(request_, TUTTI_JSON_SCHEMA, R"({"const": 7})"), TUTTI_OK);
  EXPECT_EQ(answer(), "7");
  EXPECT_EQ(tutti_request_constrain(request_, TUTTI_GRAMMAR, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_constrain(request_, static_cast<tutti_constraint>(6), "x"),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_constrain(nullptr, TUTTI_REGEX, "x"), TUTTI_INVALID_ARGUMENT);
}

TEST(CApiToolsTest, AToolLoopGoesThroughCallAndResult) {
  tutti_options* options = tutti_options_new(support::DefaultModelPath().c_str());
  tutti_options_set(options, "kv-cache-bytes", "64MiB");
  tutti_model* model = nullptr;
  tutti_error* error = nullptr;
  ASSERT_EQ(tutti_model_load(options, &model, &error), TUTTI_OK) << tutti_error_message(error);
  tutti_options_free(options);
  tutti_request* request = tutti_request_new();
  tutti_request_message(request, TUTTI_USER, "How warm is it in Oslo?");
  EXPECT_EQ(tutti_request_tool(request, nullptr, nullptr, nullptr, 0), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_request_tool(request, "get_weather", nullptr,
                               R"({"type":"object","properties":{"city":{"enum":["Oslo"]}},)"
                               R"("required":["city"],"additionalProperties":false})",
                               1),
            TUTTI_OK);
  EXPECT_EQ(tutti_request_tool_choice(request, TUTTI_TOOLS_NAMED, nullptr, 0),
            TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_request_tool_choice(request, TUTTI_TOOLS_NAMED, "get_weather", 0), TUTTI_OK);
  tutti_request_set(request, "temperature", 0);
  tutti_request_set(request, "max_tokens", 60);
  tutti_completion* answer = nullptr;
  ASSERT_EQ(tutti_generate(model, request, nullptr, nullptr, &answer, &error), TUTTI_OK)
      << tutti_error_message(error);
  EXPECT_EQ(tutti_completion_finish(answer, 0), TUTTI_TOOL_CALLS);
  EXPECT_STREQ(tutti_completion_reasoning(answer, 0), "");
  ASSERT_EQ(tutti_completion_tool_calls(answer, 0), 1);
  tutti_tool_call call{};
  EXPECT_EQ(tutti_completion_tool_call(answer, 0, 1, &call), TUTTI_OUT_OF_RANGE);
  EXPECT_EQ(tutti_completion_tool_call(answer, 1, 0, &call), TUTTI_OUT_OF_RANGE);
  ASSERT_EQ(tutti_completion_tool_call(answer, 0, 0, &call), TUTTI_OK);
  EXPECT_STREQ(call.name, "get_weather");
  EXPECT_NE(std::string(call.arguments).find("\"Oslo\""), std::string::npos);

  // The same call one token at a time.
  tutti_state* state = nullptr;
  ASSERT_EQ(tutti_state_new(model, request, &state, &error), TUTTI_OK);
  tutti_token token{};
  for (int done = 0; done == 0;)
    ASSERT_EQ(tutti_state_step(state, &token, &done, &error), TUTTI_OK);
  tutti_completion* stepped = nullptr;
  ASSERT_EQ(tutti_state_completion(state, &stepped, &error), TUTTI_OK);
  tutti_tool_call same{};
  ASSERT_EQ(tutti_completion_tool_call(stepped, 0, 0, &same), TUTTI_OK);
  EXPECT_STREQ(same.arguments, call.arguments);
  tutti_completion_free(stepped);
  tutti_state_free(state);

  ASSERT_EQ(tutti_request_tool_call(request, call.id, call.name, call.arguments), TUTTI_OK);
  ASSERT_EQ(tutti_request_tool_result(request, call.id, "9 degrees"), TUTTI_OK);
  ASSERT_EQ(tutti_request_tool_choice(request, TUTTI_TOOLS_NONE, nullptr, 1), TUTTI_OK);
  tutti_completion_free(answer);
  answer = nullptr;
  ASSERT_EQ(tutti_generate(model, request, nullptr, nullptr, &answer, &error), TUTTI_OK)
      << tutti_error_message(error);
  EXPECT_EQ(tutti_completion_tool_calls(answer, 0), 0);
  EXPECT_STRNE(tutti_completion_text(answer, 0), "");
  tutti_completion_free(answer);
  tutti_request_free(request);
  tutti_model_free(model);
}

struct Seen {
  std::string text = {};
  int calls = 0;
  int stop_at = 0;
  tutti_code verdict = TUTTI_OK;
};

tutti_code Note(void* user, const tutti_token* token) {
  Seen& seen = *static_cast<Seen*>(user);
  seen.text.append(token->text, token->text_bytes);
  return ++seen.calls == seen.stop_at ? seen.verdict : TUTTI_OK;
}

TEST_F(CApiTest, GenerateSubmitAndStepGiveTheSame) {
  Seen seen;
  ASSERT_EQ(tutti_generate(model_, request_, Note, &seen, &answer_, &error_), TUTTI_OK)
      << Message();
  EXPECT_EQ(seen.text, Text());
  EXPECT_EQ(Tokens().size(), 20u);
  EXPECT_EQ(tutti_completion_finish(answer_, 0), TUTTI_LENGTH);
  EXPECT_EQ(tutti_completion_completion_tokens(answer_), 20);
  EXPECT_GT(tutti_completion_prompt_tokens(answer_), 0);
  EXPECT_EQ(tutti_completion_choices(answer_), 1);

  tutti_job* job = nullptr;
  ASSERT_EQ(tutti_submit(model_, request_, &job, &error_), TUTTI_OK);
  std::string streamed;
  std::vector<int32_t> ids;
  tutti_token token;
  while (tutti_job_next(job, &token) == 1) {
    streamed += token.text;
    EXPECT_TRUE(std::isnan(token.logprob));
    if (token.id >= 0) ids.push_back(token.id);
  }
  EXPECT_EQ(streamed, Text());
  EXPECT_EQ(ids, Tokens());
  tutti_completion* joined = nullptr;
  ASSERT_EQ(tutti_job_join(job, &joined, &error_), TUTTI_OK);
  EXPECT_EQ(tutti_completion_text(joined, 0), Text());
  tutti_completion_free(joined);
  tutti_job_free(job);

  tutti_state* state = nullptr;
  ASSERT_EQ(tutti_state_new(model_, request_, &state, &error_), TUTTI_OK);
  std::string stepped;
  for (int done = 0; done == 0;) {
    ASSERT_EQ(tutti_state_step(state, &token, &done, &error_), TUTTI_OK);
    stepped.append(token.text, token.text_bytes);
  }
  EXPECT_EQ(stepped, Text());
  tutti_state_free(state);
}

TEST_F(CApiTest, AHandlerStopsOrFails) {
  Seen stop{.stop_at = 3, .verdict = TUTTI_CANCELLED};
  ASSERT_EQ(tutti_generate(model_, request_, Note, &stop, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(tutti_completion_finish(answer_, 0), TUTTI_CANCELLED_BY_CALLER);
  EXPECT_EQ(Tokens().size(), 3u);
  Seen fail{.stop_at = 2, .verdict = TUTTI_DATA_LOSS};
  tutti_completion* none = nullptr;
  EXPECT_EQ(tutti_generate(model_, request_, Note, &fail, &none, &error_), TUTTI_DATA_LOSS);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(Reason(), "handler_failed");
  EXPECT_EQ(tutti_error_code(error_), TUTTI_DATA_LOSS);
}

TEST_F(CApiTest, ACancelledJobHoldsWhatWasTaken) {
  tutti_request_set(request_, "max_tokens", 1500);
  tutti_job* job = nullptr;
  ASSERT_EQ(tutti_submit(model_, request_, &job, &error_), TUTTI_OK);
  tutti_token token;
  ASSERT_EQ(tutti_job_next(job, &token), 1);
  const int32_t first = token.id;
  tutti_job_cancel(job);
  EXPECT_EQ(tutti_job_next(job, &token), 0);
  ASSERT_EQ(tutti_job_join(job, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(Tokens(), std::vector<int32_t>{first});
  EXPECT_EQ(tutti_completion_finish(answer_, 0), TUTTI_CANCELLED_BY_CALLER);
  tutti_job_free(job);
}

TEST_F(CApiTest, ParametersAndConversations) {
  EXPECT_EQ(tutti_request_logit_bias(request_, 100, 100.0f), TUTTI_OK);
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, nullptr), TUTTI_OK);
  EXPECT_EQ(Tokens(), std::vector<int32_t>(20, 100));
  tutti_request_stop_token(request_, 100);
  tutti_completion* stopped = nullptr;
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &stopped, nullptr), TUTTI_OK);
  EXPECT_EQ(tutti_completion_finish(stopped, 0), TUTTI_STOP);
  tutti_completion_free(stopped);
  EXPECT_EQ(tutti_request_set(request_, "temprature", 1), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_set(request_, "max_tokens", 1.5), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_set(request_, "max_tokens", 1e300), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_set(request_, "top_k", NAN), TUTTI_INVALID_ARGUMENT);

  size_t count = 0;
  ASSERT_EQ(tutti_tokenize(model_, "hello", nullptr, 0, &count, nullptr), TUTTI_OK);
  std::vector<int32_t> ids(count);
  ASSERT_EQ(tutti_tokenize(model_, "hello", ids.data(), ids.size(), &count, nullptr), TUTTI_OK);
  char* text = nullptr;
  ASSERT_EQ(tutti_detokenize(model_, ids.data(), ids.size(), &text, nullptr), TUTTI_OK);
  EXPECT_STREQ(text, "hello");
  tutti_string_free(text);

  tutti_request* chat = tutti_request_new();
  tutti_request_message(chat, TUTTI_SYSTEM, "Be brief.");
  tutti_request_message(chat, TUTTI_USER, "hello");
  tutti_request_set(chat, "max_tokens", 3);
  tutti_request_seed(chat, INT64_MAX);
  tutti_request_stop(chat, "zzz");
  tutti_completion* talked = nullptr;
  EXPECT_EQ(tutti_generate(model_, chat, nullptr, nullptr, &talked, &error_), TUTTI_OK)
      << Message();
  EXPECT_GT(tutti_completion_prompt_tokens(talked), static_cast<int>(ids.size()));
  tutti_completion_free(talked);
  tutti_request_free(chat);
}

TEST_F(CApiTest, FailuresHaveACodeAReasonAndAMessage) {
  tutti_request_text(request_, "");
  EXPECT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(Reason(), "empty_prompt");
  EXPECT_FALSE(Message().empty());
  EXPECT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, nullptr),
            TUTTI_INVALID_ARGUMENT);
  tutti_error_free(error_);
  tutti_options* options = tutti_options_new("/no/such.gguf");
  tutti_model* none = nullptr;
  EXPECT_EQ(tutti_model_load(options, &none, &error_), TUTTI_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  tutti_options_free(options);
}

TEST_F(CApiTest, LogprobsOfTheAnswerAndOfThePrompt) {
  for (const auto& [name, value] :
       {std::pair("max_tokens", 4), std::pair("logprobs", 2), std::pair("prompt_logprobs", 1)})
    ASSERT_EQ(tutti_request_set(request_, name, value), TUTTI_OK) << name;
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_), TUTTI_OK)
      << Message();
  tutti_logprob entries[4];
  size_t count = 0;
  for (size_t at = 0; at < 4; ++at) {
    ASSERT_EQ(tutti_completion_logprobs(answer_, 0, at, entries, 4, &count), TUTTI_OK);
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(entries[0].id, Tokens()[at]);
    EXPECT_EQ(entries[0].id, entries[1].id) << "greedy";
    EXPECT_FLOAT_EQ(entries[0].logprob, entries[1].logprob);
    EXPECT_LE(entries[2].logprob, entries[1].logprob);
    EXPECT_GT(entries[0].byte_count, 0u);
  }
  EXPECT_EQ(tutti_completion_logprobs(answer_, 0, 4, entries, 4, &count), TUTTI_OUT_OF_RANGE);
  ASSERT_EQ(tutti_completion_logprobs(answer_, -1, 0, entries, 4, &count), TUTTI_OK);
  EXPECT_TRUE(std::isnan(entries[0].logprob)) << "the first token has no probability";
  std::string prompt;
  for (size_t at = 1; tutti_completion_logprobs(answer_, -1, at, entries, 4, &count) == TUTTI_OK;
       ++at) {
    EXPECT_EQ(count, 2u);
    prompt.append(entries[0].bytes, entries[0].byte_count);
  }
  EXPECT_EQ(prompt, "llo") << "behind he";
  EXPECT_EQ(tutti_completion_logprobs(answer_, 1, 0, nullptr, 0, &count), TUTTI_OUT_OF_RANGE);
}

TEST_F(CApiTest, OnlyAllowedTokensAreDrawnAndOneEndsTheAnswer) {
  int32_t ids[3];
  size_t count = 0;
  ASSERT_EQ(tutti_tokenize(model_, "abc", ids, 3, &count, &error_), TUTTI_OK);
  ASSERT_EQ(count, 3u);
  for (const int32_t id : ids) tutti_request_allow_token(request_, id);
  tutti_request_ban_token(request_, ids[2]);
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_), TUTTI_OK)
      << Message();
  EXPECT_EQ(Text().find_first_not_of("ab"), std::string::npos) << Text();
  EXPECT_EQ(tutti_completion_stop_text(answer_, 0), nullptr);
  EXPECT_EQ(tutti_completion_stop_token(answer_, 0), -1);
  const std::string first = Text().substr(0, 1);
  tutti_completion_free(answer_);
  tutti_request_stop(request_, first.c_str());
  tutti_request_set(request_, "include_stop_in_output", 1);
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(Text(), first);
  EXPECT_STREQ(tutti_completion_stop_text(answer_, 0), first.c_str());
  tutti_completion_free(answer_);
  tutti_request_free(request_);
  request_ = tutti_request_new();
  tutti_request_text(request_, "hello");
  tutti_request_set(request_, "temperature", 0);
  for (const int32_t id : {ids[0], ids[1]}) tutti_request_allow_token(request_, id);
  tutti_request_stop_token(request_, ids[first == "a" ? 0 : 1]);
  ASSERT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(tutti_completion_stop_token(answer_, 0), ids[first == "a" ? 0 : 1]);
}

TEST_F(CApiTest, AZeroEndsNoTextThatHasASize) {
  const auto prompt_tokens = [&] {
    EXPECT_EQ(tutti_generate(model_, request_, nullptr, nullptr, &answer_, &error_), TUTTI_OK)
        << Message();
    const int tokens = tutti_completion_prompt_tokens(answer_);
    tutti_completion_free(answer_);
    answer_ = nullptr;
    return tokens;
  };
  ASSERT_EQ(tutti_request_sized_text(request_, {"a\0b", 3}), TUTTI_OK);
  const int whole = prompt_tokens();
  tutti_request_text(request_, "a");
  EXPECT_GT(whole, prompt_tokens());
  EXPECT_EQ(tutti_request_sized_text(request_, {nullptr, 3}), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_request_sized_message(request_, TUTTI_USER, {"a\0b", 3}), TUTTI_OK);
  const int message = prompt_tokens();
  tutti_request_text(request_, "");  // no conversation any more
  tutti_request_message(request_, TUTTI_USER, "a");
  EXPECT_GT(message, prompt_tokens());
}

TEST_F(CApiTest, AJobIsWaitedForWithALimit) {
  tutti_job* job = nullptr;
  ASSERT_EQ(tutti_submit(model_, request_, &job, &error_), TUTTI_OK);
  tutti_token token;
  std::string text;
  for (int got = 1; got != 0;) {
    got = tutti_job_next_for(job, 5, &token);
    if (got == 1) text += token.text;
  }
  EXPECT_EQ(tutti_job_wait(job, 0), 1);
  ASSERT_EQ(tutti_job_join(job, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(text, Text());
  tutti_job_free(job);
  tutti_completion_free(answer_);
  // Waiting takes no piece.
  ASSERT_EQ(tutti_submit(model_, request_, &job, &error_), TUTTI_OK);
  while (tutti_job_wait(job, 5) == 0) continue;
  ASSERT_EQ(tutti_job_next(job, &token), 1);
  EXPECT_EQ(text.substr(0, token.text_bytes), token.text);
  ASSERT_EQ(tutti_job_join(job, &answer_, &error_), TUTTI_OK);
  EXPECT_EQ(text, Text());
  tutti_job_free(job);
}

TEST_F(CApiTest, FlagsOfAConversationNeedOne) {
  EXPECT_EQ(tutti_request_set(request_, "add_generation_prompt", 0), TUTTI_INVALID_ARGUMENT);
  char* text = nullptr;
  EXPECT_EQ(tutti_render(model_, request_, &text, &error_), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_reasoning(request_, "x"), TUTTI_INVALID_ARGUMENT);
  tutti_error_free(error_);
  tutti_request_message(request_, TUTTI_USER, "hello");
  EXPECT_EQ(tutti_request_set(request_, "add_generation_prompt", 0), TUTTI_OK);
  ASSERT_EQ(tutti_render(model_, request_, &text, &error_), TUTTI_OK) << Message();
  EXPECT_NE(std::string(text).find("hello"), std::string::npos);
  tutti_string_free(text);
}

class CEncoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const gguf::testing::TempFile file(gguf::testing::MakeCheckpoint({}).Build());
    options_ = tutti_options_new(("tiny=" + file.path()).c_str());
    tutti_options_set(options_, "threads", "1");
    tutti_options_set(options_, "kv-cache-bytes", "16MiB");
    tutti_options_progress(options_, &CEncoderTest::Progress, this);
    code_ = tutti_encoder_load(options_, &encoder_, &error_);
  }
  void TearDown() override {
    tutti_error_free(error_);
    tutti_encoder_free(encoder_);
    tutti_options_free(options_);
  }
  static int Progress(void* user, size_t done, size_t total) {
    auto* const self = static_cast<CEncoderTest*>(user);
    self->done_ = done;
    self->total_ = total;
    return self->stops_ ? 1 : 0;
  }

  tutti_options* options_ = nullptr;
  tutti_encoder* encoder_ = nullptr;
  tutti_error* error_ = nullptr;
  tutti_code code_ = TUTTI_OK;
  size_t done_ = 0, total_ = 0;
  bool stops_ = false;
};

class StoppedEncoderTest : public CEncoderTest {
 protected:
  StoppedEncoderTest() { stops_ = true; }
};

TEST_F(StoppedEncoderTest, TheProgressFunctionEndsALoad) {
  EXPECT_EQ(code_, TUTTI_ABORTED);
  EXPECT_STREQ(tutti_error_reason(error_), "handler_failed");
  EXPECT_EQ(encoder_, nullptr);
}

TEST_F(CEncoderTest, VectorsAndScoresAreThoseOfTheCppInterface) {
  ASSERT_EQ(code_, TUTTI_OK) << tutti_error_message(error_);
  EXPECT_GT(total_, 0u);
  EXPECT_EQ(done_, total_);
  EXPECT_STREQ(tutti_encoder_name(encoder_), "tiny");
  EXPECT_GT(tutti_encoder_context(encoder_), 0);
  EXPECT_EQ(tutti_encoder_pairs(encoder_), 0);
  EXPECT_EQ(tutti_encoder_labels(encoder_), 0);
  EXPECT_EQ(tutti_encoder_label(encoder_, 0), nullptr);
  EXPECT_EQ(tutti_encoder_prompt(encoder_, -1), nullptr);
  const auto width = static_cast<size_t>(tutti_encoder_dimensions(encoder_));
  ASSERT_GT(width, 0u);
  const tutti_text texts[] = {{"hello", 5}, {"world", 5}, {"hello", 5}};
  const tutti_text zeros[] = {{"a\0b", 3}, {"a", 1}};
  std::vector<float> vectors(3 * width);
  int32_t tokens[3] = {};
  ASSERT_EQ(tutti_embed(encoder_, texts, 3, nullptr, vectors.data(), tokens, &error_), TUTTI_OK);
  const auto row = [&](size_t i) {
    return std::vector<float>(vectors.begin() + static_cast<std::ptrdiff_t>(i * width),
                              vectors.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  };
  EXPECT_EQ(row(0), row(2));
  EXPECT_NE(row(0), row(1));
  EXPECT_GT(tokens[0], 0);
  float scores[2] = {};
  ASSERT_EQ(tutti_rank(encoder_, texts[0], texts, 2, nullptr, scores, &error_), TUTTI_OK);
  EXPECT_NEAR(scores[0], 1, 1e-5);
  EXPECT_LT(scores[1], scores[0]);
  ASSERT_EQ(tutti_rank(encoder_, zeros[0], zeros, 2, nullptr, scores, &error_), TUTTI_OK);
  EXPECT_NEAR(scores[0], 1, 1e-5);
  EXPECT_LT(scores[1], 0.999) << "a zero ends no text";
  tutti_encode_options options = {};
  options.prompt_name = "none such";
  EXPECT_EQ(tutti_embed(encoder_, texts, 3, &options, vectors.data(), nullptr, &error_),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_STREQ(tutti_error_param(error_), "prompt_name");
  tutti_error_free(error_);
  EXPECT_EQ(tutti_classify(encoder_, texts, 3, nullptr, scores, &error_), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_embed(encoder_, nullptr, 0, nullptr, nullptr, nullptr, nullptr), TUTTI_OK);
  EXPECT_EQ(tutti_embed(encoder_, nullptr, 1, nullptr, scores, nullptr, nullptr),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_rank(encoder_, {nullptr, 1}, texts, 2, nullptr, scores, nullptr),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_classify(nullptr, texts, 2, nullptr, scores, nullptr), TUTTI_INVALID_ARGUMENT);
}

TEST_F(CApiTest, NullIsRefusedAndNeverRead) {
  EXPECT_EQ(tutti_model_load(nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_generate(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_submit(model_, nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_job_join(nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_job_next(nullptr, nullptr), 0);
  tutti_job_cancel(nullptr);
  EXPECT_EQ(tutti_state_new(nullptr, nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_state_step(nullptr, nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_tokenize(nullptr, nullptr, nullptr, 0, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_detokenize(nullptr, nullptr, 1, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_options_set(nullptr, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_text(nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_request_message(request_, static_cast<tutti_role>(3), "x"),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_completion_text(nullptr, 0), nullptr);
  EXPECT_EQ(tutti_completion_choices(nullptr), 0);
  EXPECT_EQ(tutti_error_code(nullptr), TUTTI_OK);
  tutti_job_free(nullptr);
  tutti_state_free(nullptr);
  tutti_options_free(nullptr);
  EXPECT_STREQ(tutti_version(), "0.1.0");
}

}  // namespace
}  // namespace tutti
