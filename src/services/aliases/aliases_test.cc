#include "services/aliases/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"
#include "base/clock.h"

namespace tutti::aliases {
namespace {

using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;
using ::testing::HasSubstr;

FakeModel Decoder(const std::string& id, int context) {
  FakeModel model;
  model.info.id = id;
  model.info.max_model_len = context;
  model.info.digest = "digest-of-" + id;
  model.info.decision_temperature = context;
  return model;
}

FakeModel Encoder(const std::string& id) {
  FakeModel model;
  model.info.id = id;
  model.info.generates = false;
  model.info.encoder.emplace().width = 1;
  model.check = [](const api::EncodeRequest&, const api::ModelInfo&) { return OkStatus(); };
  model.answer = [](const api::EncodeRequest& request, const api::ModelInfo&) {
    api::EncodeResult result;
    result.width = 1;
    result.values.assign(request.inputs.size(), 0.5F);
    result.tokens.assign(request.inputs.size(), 4);
    return result;
  };
  return model;
}

api::GenerateRequest Ask(const std::string& model, const std::string& user = "") {
  api::GenerateRequest request;
  request.model = model;
  request.user = user;
  request.request_id = "call-1";
  request.tenant = "acme";
  request.prompt = api::TextPrompt{.text = "a"};
  request.sampling.max_tokens = 4;
  return request;
}

class AliasInferenceTest : public ::testing::Test {
 protected:
  // Requests that each model got from `count` requests of the alias.
  std::map<std::string, int> Divide(const std::string& alias, int count, bool users = false) {
    std::map<std::string, int> got;
    inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
      ++got[generation->request.model];
      generation->AppendAnswer({"a"});
      return OkStatus();
    };
    inference_.keeps = false;
    for (int i = 0; i < count; ++i)
      EXPECT_TRUE(
          aliases_.Generate(Ask(alias, users ? "user-" + std::to_string(i) : ""), nullptr).ok());
    return got;
  }
  ShadowRequests::Counts Shadows(const std::string& alias) {
    auto counts = aliases_.shadows().counts();
    return counts[alias];
  }
  void WaitForShadows() {
    for (int i = 0; i < 1000 && aliases_.shadows().running() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(aliases_.shadows().running(), 0u);
  }

  FakeInference inference_{
      {Decoder("teacher", 100), Decoder("student", 50), Encoder("small"), Encoder("large")}};
  SteadyClock clock_;
  AliasInference aliases_{&inference_, &clock_};
};

TEST_F(AliasInferenceTest, DividesRequestsByWeight) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 90}, {"student", 10}}}});
  const auto got = Divide("assistant", 5000);
  EXPECT_NEAR(got.at("teacher"), 4500, 10);
  EXPECT_NEAR(got.at("student"), 500, 10);
  for (const AliasInference::TargetCount& each : aliases_.counts())
    EXPECT_EQ(each.requests, static_cast<uint64_t>(got.at(each.model)));
}

TEST_F(AliasInferenceTest, DividesAnyShortRunByWeight) {
  const Alias alias{.name = "a", .targets = {{"x", 3}, {"y", 1}}};
  for (uint64_t begin = 0; begin < 1000; ++begin) {
    int x = 0;
    for (uint64_t i = 0; i < 40; ++i) x += TargetOf(alias, begin + i).model == "x";
    EXPECT_NEAR(x, 30, 3) << begin;
  }
}

TEST_F(AliasInferenceTest, KeepsUsersAtTheirModel) {
  aliases_.Set(
      {{.name = "assistant", .targets = {{"teacher", 90}, {"student", 10}}, .by_user = true}});
  const auto got = Divide("assistant", 5000, /*users=*/true);
  EXPECT_NEAR(got.at("teacher"), 4500, 100);
  std::map<std::string, std::string> first;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    const auto& request = generation->request;
    const auto [known, fresh] = first.emplace(request.user, request.model);
    EXPECT_EQ(known->second, request.model) << request.user;
    return OkStatus();
  };
  for (int i = 0; i < 300; ++i)
    ASSERT_TRUE(
        aliases_.Generate(Ask("assistant", "user-" + std::to_string(i % 30)), nullptr).ok());
  EXPECT_EQ(first.size(), 30u);
}

TEST_F(AliasInferenceTest, ScoresAllLabelsOfACallAtOneModel) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 1}, {"student", 1}}}});
  std::map<std::string, std::map<std::string, int>> got;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    ++got[generation->request.request_id][generation->request.model];
    return OkStatus();
  };
  for (int call = 0; call < 50; ++call) {
    for (const char* label : {"yes", "no", "maybe"}) {
      api::GenerateRequest request = Ask("assistant");
      request.request_id = "call-" + std::to_string(call);
      request.score_only = true;
      request.sampling.max_tokens = 0;
      request.continuation.emplace().text = label;
      ASSERT_TRUE(aliases_.Generate(std::move(request), nullptr).ok());
    }
  }
  std::map<std::string, int> calls;
  for (const auto& [id, models] : got) {
    ASSERT_EQ(models.size(), 1u) << id;
    ++calls[models.begin()->first];
  }
  EXPECT_EQ(calls.size(), 2u) << "both models are used";
}

TEST_F(AliasInferenceTest, PassesOtherNames) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 1}}}});
  ASSERT_TRUE(aliases_.Generate(Ask("student"), nullptr).ok());
  EXPECT_EQ(inference_.Generation(0)->request.model, "student");
  EXPECT_EQ(aliases_.Generate(Ask("nobody"), nullptr).status().reason(), "model_not_found");
  aliases_.Set({});
  EXPECT_EQ(aliases_.Generate(Ask("assistant"), nullptr).status().reason(), "model_not_found");
}

TEST_F(AliasInferenceTest, ListsAliasesBehindTheModels) {
  aliases_.Set({{.name = "assistant", .targets = {{"gone", 1}, {"student", 1}, {"teacher", 1}}},
                {.name = "one", .targets = {{"teacher", 1}}},
                {.name = "none", .targets = {{"gone", 1}}},
                {.name = "small", .targets = {{"teacher", 1}}}});
  const api::ModelList models = aliases_.Models();
  ASSERT_EQ(models.size(), 6u) << "an alias without models is left out";
  EXPECT_EQ(models[3].id, "assistant");
  EXPECT_EQ(models[3].max_model_len, 50) << "as the first model that is served";
  EXPECT_EQ(models[3].digest, "") << "it stands for several";
  EXPECT_EQ(models[3].decision_temperature, 0) << "its models have different ones";
  EXPECT_THAT(models[3].targets, ::testing::ElementsAre("gone", "student", "teacher"));
  EXPECT_EQ(models[4].id, "one");
  EXPECT_EQ(models[4].digest, "digest-of-teacher");
  EXPECT_EQ(models[4].decision_temperature, models[4].max_model_len);
  EXPECT_EQ(models[5].id, "small");
  EXPECT_EQ(models[5].digest, "digest-of-teacher") << "in place of the model of that name";
}

TEST_F(AliasInferenceTest, CopiesRequestsToTheShadow) {
  aliases_.Set({{.name = "assistant",
                 .targets = {{"teacher", 1}},
                 .shadow = "student",
                 .shadow_share = 0.25}});
  int copies = 0, originals = 0;
  inference_.keeps = false;
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) {
    const api::GenerateRequest& request = generation->request;
    if (request.model == "student") {
      ++copies;
      EXPECT_EQ(request.request_id, "call-1-shadow");
      EXPECT_EQ(request.tenant, "shadow/acme");
      EXPECT_EQ(request.priority, api::Priority::kBatch);
      EXPECT_TRUE(request.cache.no_store);
      EXPECT_EQ(generation->stream->size(), 0u);
      generation->Answer({"x", "y"});
    } else {
      ++originals;
    }
    return OkStatus();
  };
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
    WaitForShadows();
  }
  EXPECT_EQ(originals, 400);
  EXPECT_NEAR(copies, 100, 5);
  const ShadowRequests::Counts counts = Shadows("assistant");
  EXPECT_EQ(counts.completed, static_cast<uint64_t>(copies));
  EXPECT_EQ(counts.output_tokens, static_cast<uint64_t>(copies) * 2);
  EXPECT_EQ(counts.failed + counts.dropped, 0u);
}

TEST_F(AliasInferenceTest, CopiesLoadNoModel) {
  aliases_.Set(
      {{.name = "assistant", .targets = {{"teacher", 1}}, .shadow = "student", .shadow_share = 1}});
  inference_.SetState("student", api::ModelState::kUnloaded);
  ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
  inference_.SetState("student", api::ModelState::kLoaded);
  ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
  ASSERT_NE(inference_.Generation(2), nullptr) << "the second is copied";
  EXPECT_EQ(inference_.Generation(0)->request.model, "teacher");
  EXPECT_EQ(inference_.Generation(1)->request.model, "teacher");
  EXPECT_EQ(inference_.Generation(2)->request.model, "student");
}

TEST_F(AliasInferenceTest, DropsCopiesBeyondTheBound) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 1}}, .shadow = "student"}});
  for (size_t i = 0; i < kMaxShadows + 5; ++i)
    ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
  EXPECT_EQ(aliases_.shadows().running(), kMaxShadows);
  EXPECT_EQ(Shadows("assistant").dropped, 5u);
  for (size_t k = 0; k < inference_.generations(); ++k) {
    const auto generation = inference_.Generation(k);
    if (generation->request.model == "student") generation->Answer({"x"});
  }
  WaitForShadows();
  EXPECT_EQ(Shadows("assistant").completed, kMaxShadows);
}

TEST_F(AliasInferenceTest, CountsShadowsThatFail) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 1}}, .shadow = "student"}});
  inference_.on_generate = [&](const std::shared_ptr<FakeGeneration>& generation) -> Status {
    if (generation->request.model != "student") return OkStatus();
    return Unavailable("queue_full", "full");
  };
  ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok()) << "a shadow changes no answer";
  EXPECT_EQ(Shadows("assistant").failed, 1u);
  inference_.on_generate = nullptr;
  ASSERT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
  const auto copy = inference_.Generation(inference_.generations() - 1);
  ASSERT_EQ(copy->request.model, "student");
  copy->End(Unavailable("draining", "the server stops"));
  copy->Wake();
  WaitForShadows();
  EXPECT_EQ(Shadows("assistant").failed, 2u);
}

TEST_F(AliasInferenceTest, CopiesEncodings) {
  aliases_.Set({{.name = "search", .targets = {{"small", 1}}, .shadow = "large"}});
  for (int i = 0; i < 10; ++i) {
    api::EncodeRequest request;
    request.model = "search";
    request.inputs = {std::string("text")};
    ASSERT_TRUE(aliases_.Encode(std::move(request), nullptr).ok());
    WaitForShadows();
  }
  EXPECT_EQ(inference_.encodings(), 20u);
  EXPECT_EQ(Shadows("search").completed, 10u);
}

TEST_F(AliasInferenceTest, CancelsShadowsAtItsEnd) {
  std::shared_ptr<FakeGeneration> copy;
  {
    AliasInference aliases(&inference_, &clock_);
    aliases.Set({{.name = "assistant", .targets = {{"teacher", 1}}, .shadow = "student"}});
    ASSERT_TRUE(aliases.Generate(Ask("assistant"), nullptr).ok());
    copy = inference_.Generation(1);
    ASSERT_EQ(copy->request.model, "student");
  }
  EXPECT_TRUE(copy->cancelled.load());
}

TEST_F(AliasInferenceTest, KeepsCountsOfModelsThatStay) {
  aliases_.Set({{.name = "assistant", .targets = {{"teacher", 1}, {"student", 1}}}});
  Divide("assistant", 100);
  aliases_.Set({{.name = "assistant", .targets = {{"student", 3}, {"new", 1}}},
                {.name = "other", .targets = {{"teacher", 1}}}});
  const auto counts = aliases_.counts();
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_NEAR(static_cast<double>(counts[0].requests), 50, 2);
  EXPECT_EQ(counts[1].requests, 0u);
  EXPECT_EQ(counts[2].requests, 0u);
}

TEST_F(AliasInferenceTest, ServesWhileAliasesAreReplaced) {
  const std::vector<Alias> one = {{.name = "assistant", .targets = {{"teacher", 1}}}};
  const std::vector<Alias> two = {
      {.name = "assistant", .targets = {{"student", 2}, {"teacher", 1}}, .shadow = "student"}};
  aliases_.Set(one);
  inference_.keeps = false;
  inference_.on_generate = [](const std::shared_ptr<FakeGeneration>& generation) {
    generation->Answer({"x"});
    return OkStatus();
  };
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (int i = 0; !stop.load(); ++i) aliases_.Set(i % 2 == 0 ? two : one);
  });
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        EXPECT_TRUE(aliases_.Generate(Ask("assistant"), nullptr).ok());
        EXPECT_EQ(aliases_.Models().size(), 5u);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  stop.store(true);
  changer.join();
}

TEST(CheckAliases, NamesTheAliasAtFault) {
  const std::vector<std::string> served = {"teacher", "student"};
  const auto check = [&](const std::vector<Alias>& aliases) {
    const Status status = CheckAliases(aliases, served);
    return status.ok() ? std::string() : status.reason() + ": " + status.message();
  };
  const Alias good{.name = "a", .targets = {{"teacher", 1}}, .shadow = "student"};
  EXPECT_EQ(check({good}), "");
  Alias other = good;
  EXPECT_THAT(check({good, other}), HasSubstr("\"a\": two aliases have this name"));
  other.name = "student";
  EXPECT_THAT(check({other}), HasSubstr("\"student\": a model has this name"));
  other = {.name = "b", .targets = {{"teacher", 1}, {"techer", 1}}};
  EXPECT_THAT(check({other}),
              HasSubstr("\"b\": the model \"techer\" is not served; served are: teacher, student"));
  other = {.name = "c", .targets = {{"a", 1}}};
  EXPECT_THAT(check({good, other}), HasSubstr("\"a\" is not served"));
  other = {.name = "d", .targets = {{"teacher", 1}}, .shadow = "x"};
  EXPECT_THAT(check({other}), HasSubstr("\"x\" is not served"));
}

}  // namespace
}  // namespace tutti::aliases
