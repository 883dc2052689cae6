#include "services/admission/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"
#include "base/clock.h"
#include "services/usage/ledger_rows.h"
#include "store/store.h"

namespace tutti::admission {
namespace {

using api::testing::FakeEncoding;
using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;

constexpr int64_t kNow = 1'800'000'000;  // seconds since 1970

FakeModel Model(const std::string& id, bool generates) {
  FakeModel model;
  model.info.id = id;
  model.info.aliases = {id + "-alias"};
  model.info.generates = generates;
  if (!generates) model.info.encoder.emplace().width = 2;
  model.check = [](const api::EncodeRequest&, const api::ModelInfo&) { return OkStatus(); };
  model.answer = [](const api::EncodeRequest& request, const api::ModelInfo&) {
    api::EncodeResult result;
    result.width = 2;
    result.values.assign(request.inputs.size() * 2, 0.5F);
    result.tokens.assign(request.inputs.size(), 4);
    return result;
  };
  return model;
}

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    const std::array tables = {usage::kLedgerTable};
    store_ = *store::Store::Open({}, tables);
    ledger_ = std::make_unique<usage::Ledger>(usage::Ledger::Options{}, store_.get(), &clock_);
  }

  void Start(Policy policy = {}, api::Inference* inference = nullptr,
             limits::Limiter* limiter = nullptr) {
    admission_ = std::make_unique<Admission>(
        std::move(policy),
        Admission::Dependencies{.inference = inference == nullptr ? &inference_ : inference,
                                .limiter = limiter == nullptr ? &limiter_ : limiter,
                                .ledger = ledger_.get(),
                                .unix_ms = [] { return kNow * 1000; },
                                .valid =
                                    [this](const api::Caller& caller) {
                                      if (caller.credential != revoked_) return OkStatus();
                                      return Status(StatusCode::kUnauthenticated, "key_revoked",
                                                    "revoked");
                                    },
                                .counted = [](const api::Caller&) { return true; }});
  }

  static api::CallerRef Caller(api::CallerLimits limits = {}, std::vector<std::string> models = {},
                               std::string credential = "key:a", std::string tenant = "acme") {
    return std::make_shared<const api::Caller>(api::Caller{.tenant = std::move(tenant),
                                                           .credential = std::move(credential),
                                                           .models = std::move(models),
                                                           .limits = limits});
  }
  static api::GenerateRequest Ask(api::CallerRef caller, const std::string& model = "m") {
    api::GenerateRequest request;
    request.model = model;
    request.caller = std::move(caller);
    request.prompt = api::TextPrompt{.text = "four words of prompt"};  // estimated as 6 tokens
    request.sampling.max_tokens = 10;
    return request;
  }
  static api::EncodeRequest AskVector(api::CallerRef caller) {
    api::EncodeRequest request;
    request.caller = std::move(caller);
    request.inputs = {std::string("text")};
    return request;
  }

  std::vector<usage::Row> Rows() {
    EXPECT_TRUE(ledger_->Flush().ok());
    std::vector<usage::Row> rows;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& database) -> Status {
                      usage::Cursor cursor;
                      ASSIGN_OR_RETURN(rows,
                                       usage::ReadRows(database, INT64_MAX, 1'000'000, &cursor));
                      return OkStatus();
                    })
                    .ok());
    return rows;
  }

  ManualClock clock_;
  FakeInference inference_{{Model("m", true), Model("n", true), Model("e", false)}};
  limits::Limiter limiter_{{}, &clock_, [] { return kNow; }};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<usage::Ledger> ledger_;
  std::string revoked_ = "none";
  std::unique_ptr<Admission> admission_;
};

TEST_F(AdmissionTest, WhoSaysNotWhoAsksIsRefused) {
  Start();
  EXPECT_EQ(admission_->Generate(Ask(nullptr), nullptr).status().reason(), "internal_error");
  EXPECT_EQ(admission_->Generate(Ask(Caller({}, {}, "")), nullptr).status().reason(),
            "internal_error");
  EXPECT_EQ(admission_->Encode(AskVector(nullptr), nullptr).status().reason(), "internal_error");
  EXPECT_EQ(admission_->Tokenize({}).status().reason(), "internal_error");
  EXPECT_EQ(admission_->Detokenize({}).status().reason(), "internal_error");
  EXPECT_EQ(inference_.generations() + inference_.encodings(), 0u);
}

// Regression: calls that only load a model were not counted.
TEST_F(AdmissionTest, LoadsCountAsRequestsOfNoTokens) {
  Start();
  const api::CallerRef caller = Caller({.requests_per_minute = 2, .tokens_per_minute = 100});
  EXPECT_TRUE(admission_->CountLoad(caller, "m").ok());
  EXPECT_TRUE(admission_->CountLoad(caller, "m").ok());
  const Status refused = admission_->CountLoad(caller, "m");
  EXPECT_EQ(refused.reason(), "rate_limit_exceeded");
  EXPECT_TRUE(refused.retry_after().has_value());
  EXPECT_EQ(admission_->Generate(Ask(caller), nullptr).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(admission_->CountLoad(nullptr, "m").reason(), "internal_error");
}

TEST_F(AdmissionTest, AModelThatWasNotGivenIsRefusedByEveryName) {
  Start();
  const api::CallerRef only_n = Caller({}, {"n-alias"});
  for (const char* model : {"m", "m-alias", ""}) {  // "" means the first, m
    EXPECT_EQ(admission_->Generate(Ask(only_n, model), nullptr).status().reason(),
              "insufficient_scope")
        << model;
    EXPECT_EQ(
        admission_->Tokenize({.model = model, .prompt = {}, .caller = only_n}).status().reason(),
        "insufficient_scope");
    EXPECT_EQ(admission_->Detokenize({.model = model, .caller = only_n}).status().reason(),
              "insufficient_scope");
  }
  EXPECT_EQ(admission_->Encode(AskVector(only_n), nullptr).status().reason(), "insufficient_scope");
  EXPECT_EQ(admission_->Generate(Ask(only_n, "none"), nullptr).status().reason(),
            "model_not_found");
  for (const char* model : {"n", "n-alias"}) {
    const auto generation = admission_->Generate(Ask(only_n, model), nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status();
  }
  for (size_t k = 0; k < 2; ++k) inference_.Generation(k)->End();
}

// Regression: without a generating model, a tokenize request without a model name used the first
// model even if the caller had no access to it.
TEST_F(AdmissionTest, AnEncodersTokenizerIsNotUsedWithoutANameByWhomItWasNotGiven) {
  FakeInference encoders({Model("e", false), Model("f", false)});
  Start({}, &encoders);
  const api::CallerRef only_f = Caller({}, {"f"});
  EXPECT_EQ(admission_->Tokenize({.model = "", .prompt = {}, .caller = only_f}).status().reason(),
            "insufficient_scope");
  EXPECT_EQ(admission_->Detokenize({.model = "", .tokens = {}, .caller = only_f}).status().reason(),
            "insufficient_scope");
  EXPECT_TRUE(admission_->Tokenize({.model = "f", .prompt = {}, .caller = only_f}).ok());
}

TEST_F(AdmissionTest, QuestionsThatAreAnsweredLaterAreRefusedAsOthersAre) {
  Start();
  int asked = 0;
  inference_.on_question = [&](const std::function<void()>& answer) {
    ++asked;
    answer();
  };
  for (const auto& [caller, reason] : std::vector<std::pair<api::CallerRef, std::string>>{
           {nullptr, "internal_error"}, {Caller({}, {"n"}), "insufficient_scope"}}) {
    std::vector<std::string> said;
    admission_->TokenizeLater({.model = "m", .prompt = {}, .caller = caller},
                              [&](const auto& told) { said.push_back(told.status().reason()); });
    admission_->DetokenizeLater({.model = "m", .caller = caller},
                                [&](const auto& told) { said.push_back(told.status().reason()); });
    EXPECT_EQ(said, (std::vector<std::string>{reason, reason}));
  }
  EXPECT_EQ(asked, 0);
  bool ok = false;
  admission_->DetokenizeLater({.model = "n", .caller = Caller({}, {"n"})},
                              [&](const auto& told) { ok = told.ok(); });
  EXPECT_TRUE(ok);
  EXPECT_EQ(asked, 1);
}

TEST_F(AdmissionTest, TheTenantAndItsWeightGoOn) {
  Policy policy;
  policy.weights = {{"acme", 4.0}};
  Start(policy);
  const auto generation = admission_->Generate(Ask(Caller()), nullptr);
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(inference_.Generation(0)->request.tenant, "acme");
  EXPECT_EQ(inference_.Generation(0)->request.tenant_weight, 4.0);
  const auto encoding = admission_->Encode(AskVector(Caller({}, {}, "key:b", "other")), nullptr);
  ASSERT_TRUE(encoding.ok());
  EXPECT_EQ(inference_.Encoding(0)->request.tenant, "other");
  EXPECT_EQ(inference_.Encoding(0)->request.tenant_weight, 1.0);
  inference_.Generation(0)->End();
}

TEST_F(AdmissionTest, OfAThousandParallelRequestsAtALimitOfAHundredAHundredPass) {
  Start();
  const api::CallerRef caller = Caller({.requests_per_minute = 100});
  std::atomic<int> passed{0}, refused{0};
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  std::vector<std::jthread> threads;
  for (int t = 0; t < 10; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        api::GenerateRequest request = Ask(caller);
        request.rate_limits = std::make_shared<api::RateLimits>();
        const auto told = request.rate_limits;
        const auto generation = admission_->Generate(std::move(request), nullptr);
        EXPECT_TRUE(told->requests.has_value());
        EXPECT_EQ(told->requests->limit, 100);
        if (generation.ok()) {
          ++passed;
          continue;
        }
        ++refused;
        EXPECT_EQ(generation.status().reason(), "rate_limit_exceeded");
        EXPECT_TRUE(generation.status().retry_after().has_value());
        EXPECT_EQ(told->requests->remaining, 0);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(passed.load(), 100);
  EXPECT_EQ(refused.load(), 900);
  EXPECT_EQ(Rows().size(), 100u) << "none for a request that was refused";
}

// 10^5 requests whose clients leave at once leak nothing.
TEST_F(AdmissionTest, NothingLeaksWithClientsThatGo) {
  Start();
  inference_.keeps = false;
  const api::CallerRef caller = Caller({.concurrency = 1, .queued_tokens = 20});
  std::shared_ptr<FakeGeneration> last;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    last = generation;
    return OkStatus();
  };
  for (int i = 0; i < 100'000; ++i) {
    {
      auto generation = admission_->Generate(Ask(caller), nullptr);
      // Another thread writes the usage of these requests, and may fall behind.
      while (!generation.ok() && generation.status().reason() == "overloaded") {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        generation = admission_->Generate(Ask(caller), nullptr);
      }
      ASSERT_TRUE(generation.ok()) << i << generation.status();
    }
    ASSERT_TRUE(last->cancelled.load());
    last->End(Status(StatusCode::kCancelled, "cancelled", "the client left"));
  }
  last.reset();
  EXPECT_EQ(admission_->running(), 0u);
  clock_.Advance(std::chrono::minutes(2));
  limiter_.DropIdle();
  EXPECT_EQ(limiter_.subjects(), 0u);
}

TEST_F(AdmissionTest, TokensAreReservedAndSettledByWhatWasComputed) {
  Start();
  const api::CallerRef caller = Caller({.tokens_per_minute = 100});
  const auto ask = [&] {
    api::GenerateRequest request = Ask(caller);  // 6 and 10 tokens
    request.rate_limits = std::make_shared<api::RateLimits>();
    const auto told = request.rate_limits;
    return std::pair(admission_->Generate(std::move(request), nullptr), told);
  };
  const auto [first, told_first] = ask();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(told_first->tokens->remaining, 84);
  inference_.Generation(0)->Started(20, 15);
  inference_.Generation(0)->Token("a");
  inference_.Generation(0)->End();  // five of the prompt and one of the answer
  const auto [second, told_second] = ask();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(told_second->tokens->remaining, 78);
  // Cancelled before it had a turn: nothing was computed.
  inference_.Generation(1)->Started(20, 0);
  inference_.Generation(1)->End(Status(StatusCode::kCancelled, "cancelled", "the client left"));
  const auto [third, told_third] = ask();
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(told_third->tokens->remaining, 78);
  inference_.Generation(2)->End();
}

TEST_F(AdmissionTest, AnAnswerThatWasKeptCountsAsARequestAndAsNoTokens) {
  Start();
  const api::CallerRef caller = Caller({.requests_per_minute = 10, .tokens_per_minute = 100});
  for (int i = 0; i < 3; ++i) {
    api::GenerateRequest request = Ask(caller);
    request.rate_limits = std::make_shared<api::RateLimits>();
    const auto told = request.rate_limits;
    const auto generation = admission_->Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok());
    EXPECT_EQ(told->requests->remaining, 9 - i);
    EXPECT_EQ(told->tokens->remaining, 84);  // what is reserved for it comes back
    const auto kept = inference_.Generation(static_cast<size_t>(i));
    kept->Started(20, 0);
    kept->Token("a");
    kept->usage.cached_response = true;
    kept->End();
  }
}

TEST_F(AdmissionTest, APromptAboveTheLimitCanNeverPassButALongAnswerIsCut) {
  Start();
  const api::CallerRef caller = Caller({.tokens_per_minute = 100});
  api::GenerateRequest request = Ask(caller);
  request.prompt = api::TextPrompt{.text = std::string(1000, 'a')};
  EXPECT_EQ(admission_->Generate(std::move(request), nullptr).status().reason(),
            "request_exceeds_limit");
  api::GenerateRequest answer = Ask(caller);
  answer.sampling.max_tokens = 8000;
  const auto generation = admission_->Generate(std::move(answer), nullptr);
  ASSERT_TRUE(generation.ok()) << generation.status();
  inference_.Generation(0)->End();
}

TEST_F(AdmissionTest, ConcurrencyEndsWithTheStreamAndWaitingTokensWithTheFirst) {
  Start();
  const api::CallerRef caller = Caller({.concurrency = 2, .queued_tokens = 8});
  const auto first = admission_->Generate(Ask(caller), nullptr);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(admission_->Generate(Ask(caller), nullptr).status().reason(), "rate_limit_exceeded")
      << "six tokens wait, and eight may";
  inference_.Generation(0)->Started();
  inference_.Generation(0)->Token("a");
  const auto second = admission_->Generate(Ask(caller), nullptr);
  ASSERT_TRUE(second.ok()) << second.status();
  inference_.Generation(1)->Token("a");
  EXPECT_FALSE(admission_->Generate(Ask(caller), nullptr).ok()) << "two run";
  inference_.Generation(0)->End();
  EXPECT_TRUE(admission_->Generate(Ask(caller), nullptr).ok());
  inference_.Generation(1)->End();
  inference_.Generation(2)->End();
}

TEST_F(AdmissionTest, WhatTheInferenceRefusesNeverWas) {
  Start();
  const api::CallerRef caller = Caller({.requests_per_minute = 1});
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>&) {
    return Unavailable("queue_full", "full");
  };
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(admission_->Generate(Ask(caller), nullptr).status().reason(), "queue_full");
  EXPECT_TRUE(Rows().empty());
  EXPECT_EQ(admission_->running(), 0u);
}

TEST_F(AdmissionTest, AnyNameMeansTheOnlyGeneratorWhereThatIsWanted) {
  FakeInference one{{Model("m", true), Model("e", false)}};
  Start({}, &one);
  EXPECT_EQ(admission_->Generate(Ask(Caller(), "gpt-4o"), nullptr).status().reason(),
            "model_not_found")
      << "off by default";
  Policy policy;
  policy.any_model_name = true;
  Start(policy, &one);
  const auto generation = admission_->Generate(Ask(Caller(), "gpt-4o"), nullptr);
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(one.Generation(0)->request.model, "m");
  EXPECT_TRUE(admission_->Tokenize({.model = "gpt-4o", .prompt = {}, .caller = Caller()}).ok());
  EXPECT_TRUE(admission_->Detokenize({.model = "gpt-4o", .tokens = {}, .caller = Caller()}).ok());
  EXPECT_EQ(admission_->Generate(Ask(Caller({}, {"e"}), "gpt-4o"), nullptr).status().reason(),
            "insufficient_scope")
      << "names open no model that the caller was not given";
  api::EncodeRequest vector = AskVector(Caller());
  vector.model = "text-embedding-3-small";
  EXPECT_EQ(admission_->Encode(std::move(vector), nullptr).status().reason(), "model_not_found");
  one.awaited = "later";
  EXPECT_EQ(admission_->Generate(Ask(Caller(), "later"), nullptr).status().reason(),
            "model_not_found")
      << "a model that is to come answers under its own name";
  one.Generation(0)->End();

  FakeModel adapter = Model("a", true);
  adapter.info.parent = "m";
  FakeInference adapted{{Model("m", true), adapter}};
  Start(policy, &adapted);
  ASSERT_TRUE(admission_->Generate(Ask(Caller(), "gpt-4o"), nullptr).ok());
  EXPECT_EQ(adapted.Generation(0)->request.model, "m") << "adapters are no further models";
  adapted.Generation(0)->End();

  Start(policy);  // two generating models: no default
  EXPECT_EQ(admission_->Generate(Ask(Caller(), "gpt-4o"), nullptr).status().reason(),
            "model_not_found");
}

TEST_F(AdmissionTest, TheLimitsOfATenantHoldForItsKeysTogether) {
  Policy policy;
  policy.tenant.requests_per_minute = 2;
  policy.key.requests_per_minute = 5;
  Start(policy);
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  EXPECT_TRUE(admission_->Generate(Ask(Caller({}, {}, "key:a")), nullptr).ok());
  EXPECT_TRUE(admission_->Generate(Ask(Caller({}, {}, "key:b")), nullptr).ok());
  EXPECT_FALSE(admission_->Generate(Ask(Caller({}, {}, "key:c")), nullptr).ok());
  EXPECT_TRUE(admission_->Generate(Ask(Caller({}, {}, "key:c", "other")), nullptr).ok());
}

// All kinds of ends: the sum of the rows equals the sum over the streams.
TEST_F(AdmissionTest, ShowsWhatIsLeftOfKeyAndTenant) {
  Policy policy;
  policy.tenant.requests_per_minute = 100;
  policy.key.concurrency = 7;
  Start(std::move(policy));
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  const api::CallerRef caller = Caller({.daily_tokens = 500});
  EXPECT_TRUE(admission_->Generate(Ask(caller), nullptr).ok());
  std::vector<std::string> shown;
  for (const api::CallerLimitState& each : admission_->LimitsLeft(*caller)) {
    shown.push_back(std::string(each.of) + " " + std::string(each.limit) + " " +
                    std::to_string(each.state.limit));
  }
  EXPECT_THAT(shown, ::testing::ElementsAre("tenant requests_per_minute 100", "key concurrency 7",
                                            "key daily_tokens 500"));
  EXPECT_EQ(admission_->LimitsLeft(*caller)[0].state.remaining, 99);
  EXPECT_EQ(admission_->LimitsLeft(*Caller({}, {}, "key:b", "other"))[0].state.remaining, 100);
}

TEST_F(AdmissionTest, TheLedgerAddsUp) {
  Start();
  int64_t prompt = 0, cached = 0, output = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (i % 4 == 3) {
      ASSERT_TRUE(admission_->Encode(AskVector(Caller()), nullptr).ok());
      prompt += 4;
      continue;
    }
    auto generation = admission_->Generate(Ask(Caller()), nullptr);
    ASSERT_TRUE(generation.ok());
    const auto written = inference_.Generation(inference_.generations() - 1);
    written->Started(10 + i % 7, i % 3);
    for (int token = 0; token < i % 5; ++token) written->Token("a");
    written->timings.prefill = std::chrono::milliseconds(1);
    written->End(i % 4 == 0 ? Status(StatusCode::kCancelled, "cancelled", "") : OkStatus());
    const api::StreamEvent* event = nullptr;
    api::Generation reader = *std::move(generation);
    while ((event = reader.Next()) != nullptr) {
      if (event->kind != api::StreamEvent::Kind::kEnd) continue;
      prompt += event->usage.prompt_tokens;
      cached += event->usage.cached_tokens;
      output += event->usage.completion_tokens;
    }
  }
  const std::vector<usage::Row> rows = Rows();
  ASSERT_EQ(rows.size(), 10'000u);
  for (const usage::Row& row : rows) {
    prompt -= row.prompt_tokens;
    cached -= row.cached_tokens;
    output -= row.output_tokens;
  }
  EXPECT_EQ(prompt, 0);
  EXPECT_EQ(cached, 0);
  EXPECT_EQ(output, 0);
  EXPECT_EQ(rows[0].tenant, "acme");
  EXPECT_EQ(rows[0].key_id, "key:a");
  EXPECT_EQ(rows[0].model, "m");
  EXPECT_EQ(rows[0].route, "completions");
  EXPECT_EQ(rows[0].outcome, "cancelled");
  EXPECT_EQ(rows[3].model, "e");
  EXPECT_EQ(rows[3].route, "embeddings");
}

TEST_F(AdmissionTest, ARowSaysWhoItWasAndByWhichRoute) {
  Start();
  const auto ask = [&](const api::CallerRef& caller) {
    api::GenerateRequest request = Ask(caller);
    request.user = "told";
    request.route = "chat.completions";
    const auto generation = admission_->Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok());
    inference_.Generation(inference_.generations() - 1)->End(OkStatus());
  };
  ask(Caller());
  auto person = *Caller();
  person.user = "ann";
  ask(std::make_shared<const api::Caller>(person));
  api::EncodeRequest vector = AskVector(Caller());
  vector.user = "told too";
  vector.route = "embed";
  ASSERT_TRUE(admission_->Encode(std::move(vector), nullptr).ok());
  const std::vector<usage::Row> rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].user, "told") << "a key's client names its own users";
  EXPECT_EQ(rows[0].route, "chat.completions");
  EXPECT_EQ(rows[1].user, "ann") << "who has shown who it is is nobody else";
  EXPECT_EQ(rows[2].user, "told too");
  EXPECT_EQ(rows[2].route, "embed");
}

TEST_F(AdmissionTest, ARevokedKeyEndsWhatRunsAndBeginsNothing) {
  Start();
  inference_.holds_encodings = true;
  const auto generation = admission_->Generate(Ask(Caller()), nullptr);
  const auto encoding = admission_->Encode(AskVector(Caller()), nullptr);
  const auto other = admission_->Generate(Ask(Caller({}, {}, "key:b")), nullptr);
  ASSERT_TRUE(generation.ok() && encoding.ok() && other.ok());
  revoked_ = "key:a";
  EXPECT_EQ(admission_->Revoke("key:a"), 2u);
  EXPECT_TRUE(inference_.Generation(0)->cancelled.load());
  EXPECT_TRUE(inference_.Encoding(0)->cancelled.load());
  EXPECT_FALSE(inference_.Generation(1)->cancelled.load());
  EXPECT_EQ(admission_->Generate(Ask(Caller()), nullptr).status().reason(), "key_revoked");
  const Status cancelled(StatusCode::kCancelled, "cancelled", "");
  inference_.Generation(0)->End(cancelled);
  inference_.Encoding(0)->Finish(cancelled);
  inference_.Generation(1)->End();
  EXPECT_EQ(generation->stream().status().reason(), "key_revoked");
  EXPECT_TRUE(other->stream().status().ok());
}

// A revocation at any moment ends all requests of the key.
TEST_F(AdmissionTest, ARevocationBesideABeginningMissesNothing) {
  for (int round = 0; round < 500; ++round) {
    std::atomic<bool> revoked{false};
    Admission admission({}, {.inference = &inference_,
                             .limiter = &limiter_,
                             .unix_ms = [] { return kNow * 1000; },
                             .valid =
                                 [&](const api::Caller&) {
                                   if (!revoked.load()) return OkStatus();
                                   return Status(StatusCode::kUnauthenticated, "key_revoked", "");
                                 },
                             .counted = [](const api::Caller&) { return false; }});
    const size_t before = inference_.generations();
    Result<api::Generation> begun = api::Generation();
    std::jthread client([&] { begun = admission.Generate(Ask(Caller()), nullptr); });
    revoked.store(true);
    admission.Revoke("key:a");
    client.join();
    if (!begun.ok()) continue;
    ASSERT_TRUE(inference_.Generation(before)->cancelled.load()) << round;
    inference_.Generation(before)->End(Status(StatusCode::kCancelled, "cancelled", ""));
  }
}

TEST_F(AdmissionTest, NewPolicyCountsFromTheNextRequest) {
  Start();
  const api::CallerRef caller = Caller();
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->AppendAnswer({"one"});
    return OkStatus();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(admission_->Generate(Ask(caller), nullptr).ok());
  Policy policy;
  policy.key.requests_per_minute = 1;
  policy.weights = {{"acme", 3}};
  policy.any_model_name = true;
  admission_->SetPolicy(policy);
  ASSERT_TRUE(admission_->Generate(Ask(caller), nullptr).ok());
  EXPECT_EQ(inference_.Generation(3)->request.tenant_weight, 3);
  EXPECT_EQ(admission_->Generate(Ask(caller), nullptr).status().reason(), "rate_limit_exceeded");
  admission_->SetPolicy({});
  EXPECT_TRUE(admission_->Generate(Ask(caller), nullptr).ok());
}

TEST_F(AdmissionTest, AliasesDoNotCountAsModelsOfAnyName) {
  FakeModel alias = Model("alias", true);
  alias.info.targets = {"m"};
  FakeInference one({Model("m", true), alias, Model("e", false)});
  Policy policy;
  policy.any_model_name = true;
  Start(policy, &one);
  EXPECT_TRUE(admission_->Models()[0].answers_any_name);
  EXPECT_FALSE(admission_->Models()[1].answers_any_name);
}

TEST_F(AdmissionTest, TodaysUseBeforeAStartCounts) {
  Start();
  const api::CallerLimits limits{.daily_tokens = 100};
  ASSERT_EQ(admission_->AddToDay({{.tenant = "acme", .key_id = "key:a", .tokens = 90}},
                                 [&](const std::string&) { return limits; }),
            0u);
  EXPECT_EQ(admission_->Generate(Ask(Caller(limits)), nullptr).status().reason(),
            "insufficient_quota");
}

// Regression: the first row without room stopped the start, and later rows got no limits.
TEST_F(AdmissionTest, RestoresTheGreatestUsersFirstWhenTheTableIsFull) {
  limits::Limiter small{{.max_subjects = 1, .shards = 1}, &clock_, [] { return kNow; }};
  Policy policy;
  policy.tenant.tokens_per_day = 1000;
  Start(policy, nullptr, &small);
  const api::CallerLimits limits{.daily_tokens = 100};
  std::vector<usage::KeyTokens> used;
  for (int i = 0; i < 10; ++i)
    used.push_back({.tenant = "acme", .key_id = "key:" + std::to_string(i), .tokens = 10 * i});
  const size_t keys = limits::kSubjectKinds - 1;  // minimum per shard, less one for the tenant
  EXPECT_EQ(admission_->AddToDay(used, [&](const std::string&) { return limits; }), 10 - keys);
  EXPECT_EQ(small.subjects(), keys + 1);
  EXPECT_EQ(admission_->Generate(Ask(Caller(limits, {}, "key:9")), nullptr).status().reason(),
            "insufficient_quota");
}

TEST(PolicyTest, ScopesAreReadOrNamedAndOthersHaveNone) {
  Policy policy;
  policy.cache_scopes = *ReadScopes("home=family,work=family,lab=x");
  EXPECT_EQ(policy.ScopeOf("home"), policy.ScopeOf("work"));
  EXPECT_NE(policy.ScopeOf("home"), policy.ScopeOf("lab"));
  EXPECT_EQ(policy.ScopeOf("family"), "");
  EXPECT_TRUE(ReadScopes("")->empty());
  for (const char* bad : {"home", "=x", "home=", "home=x,home=y", "home=x,,", ","}) {
    EXPECT_EQ(ReadScopes(bad).status().reason(), "invalid_value") << bad;
  }
}

TEST(PolicyTest, WeightsAreReadOrNamed) {
  const auto weights = ReadWeights("gold=4,trial=0.5");
  ASSERT_TRUE(weights.ok());
  EXPECT_THAT(*weights, ::testing::ElementsAre(std::pair<const std::string, double>("gold", 4),
                                               std::pair<const std::string, double>("trial", 0.5)));
  EXPECT_TRUE(ReadWeights("")->empty());
  for (const char* bad : {"gold", "=4", "gold=", "gold=x", "gold=4x", "gold=0", "gold=1000",
                          "gold=nan", "gold=1,gold=2", "gold=1,,"}) {
    EXPECT_EQ(ReadWeights(bad).status().reason(), "invalid_value") << bad;
  }
}

}  // namespace
}  // namespace tutti::admission
