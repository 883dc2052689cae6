#include "services/calls/buffered_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "api/testing/fake_inference.h"

namespace tutti::calls {
namespace {

using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;

api::EncodeResult Ones(const api::EncodeRequest& request, const api::ModelInfo&) {
  api::EncodeResult result;
  result.width = 2;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    result.values.insert(result.values.end(), {1.0f, 0.5f});
    result.tokens.push_back(3);
  }
  return result;
}

std::vector<FakeModel> Models() {
  FakeModel decoder;
  decoder.info.id = "small";
  decoder.info.digest = "0123456789abcdef";
  decoder.info.generates = true;
  decoder.info.max_model_len = 100;
  FakeModel encoder;
  encoder.info.id = "vectors";
  encoder.info.max_model_len = 100;
  encoder.info.encoder.emplace();
  encoder.info.encoder->width = 2;
  encoder.info.generates = false;
  encoder.check = [](const api::EncodeRequest&, const api::ModelInfo&) { return OkStatus(); };
  encoder.answer = Ones;
  return {decoder, encoder};
}

class BufferedRequestTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<BufferedRequest>> Parse(CallKind kind, const std::string& body) {
    return BufferedRequest::Parse(
        kind, body, {.caller = caller_, .request_id = "job_1", .unix_s = 77}, inference_);
  }
  std::unique_ptr<BufferedRequest> Begun(CallKind kind, const std::string& body) {
    auto call = Parse(kind, body);
    EXPECT_TRUE(call.ok()) << call.status();
    if (!call.ok()) return nullptr;
    const Status begun = (*call)->Begin(nullptr);
    EXPECT_TRUE(begun.ok()) << begun;
    return *std::move(call);
  }

  FakeInference inference_{Models()};
  api::CallerRef caller_ = std::make_shared<const api::Caller>(api::Caller{.tenant = "t"});
};

TEST_F(BufferedRequestTest, ACallsAnswerIsThatOfItsRoute) {
  const auto call = Begun(CallKind::kText, R"({"model":"small","prompt":["a","b"],"n":1})");
  ASSERT_NE(call, nullptr);
  EXPECT_FALSE(call->Poll().has_value());
  inference_.Generation(0)->AppendAnswer({"x", "y"});
  EXPECT_FALSE(call->Poll().has_value()) << "the other prompt has not ended";
  EXPECT_EQ(call->progress(), 2);
  inference_.Generation(1)->AppendAnswer({"z"});
  const auto answer = call->Poll();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->status.ok());
  EXPECT_EQ(answer->output_tokens, 3);
  EXPECT_TRUE(answer->body.starts_with(R"({"id":"cmpl-1","object":"text_completion","created":77)"))
      << answer->body;
  EXPECT_NE(answer->body.find(R"("text":"xy")"), std::string::npos) << answer->body;
  EXPECT_FALSE(call->Poll().has_value()) << "once";
  const api::GenerateRequest& request = inference_.Generation(1)->request;
  EXPECT_EQ(request.priority, api::Priority::kBatch);
  EXPECT_TRUE(request.detached);
  EXPECT_EQ(request.caller, caller_);
  EXPECT_EQ(request.route, "completions");
}

TEST_F(BufferedRequestTest, OneThatFailsEndsTheOthersAndNamesItsField) {
  const auto call = Begun(CallKind::kText, R"({"model":"small","prompt":["a","b"]})");
  ASSERT_NE(call, nullptr);
  inference_.Generation(1)->Started(200);
  inference_.Generation(1)->End(InvalidArgument("context_length_exceeded", "too long"));
  const auto answer = call->Poll();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status.reason(), "context_length_exceeded");
  EXPECT_EQ(answer->status.param(), "prompt[1]");
  EXPECT_TRUE(inference_.Generation(0)->cancelled);
}

TEST_F(BufferedRequestTest, WhatIsCancelledKeepsItsTexts) {
  const auto call = Begun(CallKind::kChat,
                          R"({"model":"small","n":2,"messages":[{"role":"user","content":"x"}]})");
  ASSERT_NE(call, nullptr);
  const auto generation = inference_.Generation(0);
  generation->Started();
  generation->Token("one", 0);
  generation->Token("two", 1);
  call->Cancel();
  EXPECT_TRUE(generation->cancelled);
  generation->End({StatusCode::kCancelled, "cancelled", "the request was cancelled"});
  const auto answer = call->Poll();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, R"({"partial":[{"index":0,"text":"one"},{"index":1,"text":"two"}]})");
}

TEST_F(BufferedRequestTest, OneThatGoesCancelsWhatItRuns) {
  auto call = Begun(CallKind::kGenerate, R"({"prompt":"x"})");
  ASSERT_NE(call, nullptr);
  call.reset();
  EXPECT_TRUE(inference_.Generation(0)->cancelled);
}

TEST_F(BufferedRequestTest, VectorsAreWrittenAsTheRouteDoes) {
  const auto call = Begun(CallKind::kEmbeddings, R"({"model":"vectors","input":["a","b"]})");
  ASSERT_NE(call, nullptr);
  const auto answer = call->Poll();
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->status.ok()) << answer->status;
  EXPECT_NE(answer->body.find(R"("embedding":[1.0,0.5])"), std::string::npos) << answer->body;
  EXPECT_EQ(inference_.Encoding(0)->request.priority, api::Priority::kBatch);
}

TEST_F(BufferedRequestTest, AFilledHoleIsLlamaCppsObject) {
  const auto call = Begun(CallKind::kInfill, R"({"input_prefix":"a","input_suffix":"b"})");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(std::get<api::TextPrompt>(inference_.Generation(0)->request.prompt).suffix, "b");
  inference_.Generation(0)->AppendAnswer({"mid", "dle"});
  const auto answer = call->Poll();
  ASSERT_TRUE(answer.has_value());
  EXPECT_NE(answer->body.find(R"("content":"middle","stop":true)"), std::string::npos)
      << answer->body;
}

TEST_F(BufferedRequestTest, WhatTheRouteRefusesIsNoCall) {
  const auto code = [&](CallKind kind, const std::string& body) {
    return Parse(kind, body).status().reason();
  };
  EXPECT_EQ(code(CallKind::kChat, "{"), "invalid_json");
  EXPECT_EQ(code(CallKind::kChat, "{}"), "missing_required_parameter");
  EXPECT_EQ(code(CallKind::kText, R"({"model":"small","prompt":"x","stream":true})"),
            "unsupported_parameter");
  EXPECT_EQ(code(CallKind::kText, R"({"model":"none","prompt":"x"})"), "model_not_found");
  EXPECT_EQ(code(CallKind::kEmbeddings, R"({"model":"none","input":"x"})"), "model_not_found");
  caller_ = std::make_shared<const api::Caller>(api::Caller{.models = {"vectors"}});
  EXPECT_EQ(code(CallKind::kText, R"({"model":"small","prompt":"x"})"), "model_not_found")
      << "one that was not given to the caller";
}

// Regression: the call failed for good as soon as another model was loaded.
TEST_F(BufferedRequestTest, ACallOfAModelThatIsStillBeingLoadedIsTaken) {
  inference_.awaited = "late";
  EXPECT_TRUE(Parse(CallKind::kText, R"({"model":"late","prompt":"x"})").ok());
  EXPECT_TRUE(Parse(CallKind::kEmbeddings, R"({"model":"late","input":"x"})").ok());
  EXPECT_EQ(Parse(CallKind::kText, R"({"model":"none","prompt":"x"})").status().reason(),
            "model_not_found");
}

TEST_F(BufferedRequestTest, KindsAreKnownByName) {
  for (const CallKind kind : {CallKind::kChat, CallKind::kText, CallKind::kGenerate,
                              CallKind::kInfill, CallKind::kDecisions, CallKind::kSystemOne,
                              CallKind::kEmbeddings, CallKind::kRerank, CallKind::kScore})
    EXPECT_EQ(KindNamed(NameOf(kind)), kind);
  EXPECT_FALSE(KindNamed("").has_value());
}

// Token ids that are echoed may be decoded in another process.
TEST_F(BufferedRequestTest, AnAnswerWaitsForItsEchoAndNobodyElseDoes) {
  std::vector<std::function<void()>> asked;
  inference_.on_question = [&](std::function<void()> answer) {
    asked.push_back(std::move(answer));
  };
  for (const char* last : {"105", "999"}) {
    const auto call = Begun(CallKind::kText, std::string(R"({"model":"small","prompt":[72,)") +
                                                 last + R"(],"echo":true})");
    ASSERT_NE(call, nullptr);
    ASSERT_EQ(asked.size(), 1u);
    inference_.Generation(inference_.generations() - 1)->AppendAnswer({"!"});
    EXPECT_FALSE(call->Poll().has_value());
    asked.front()();
    asked.clear();
    const auto answer = call->Poll();
    ASSERT_TRUE(answer.has_value());
    if (answer->status.ok()) {
      EXPECT_NE(answer->body.find(R"("text":"Hi!")"), std::string::npos) << answer->body;
    } else {
      EXPECT_EQ(answer->status.reason(), "token_out_of_range");
      EXPECT_STREQ(last, "999");
    }
  }
}

}  // namespace
}  // namespace tutti::calls
