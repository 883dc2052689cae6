// Routes that load and unload models, over a control of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Notes the calls, and answers them at once or, if held, when the test says so.
class FakeControl final : public api::ModelControl {
 public:
  void Load(const std::string& model, Done done) override { Take("load " + model, done); }
  void Unload(const std::string& model, Done done) override { Take("unload " + model, done); }
  void KeepAlive(const std::string& model, Duration keep_alive) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back("keep " + model + " " + std::to_string(ToSeconds(keep_alive)));
  }
  void Rescan() override {
    const std::lock_guard lock(mutex_);
    calls_.push_back("rescan");
  }

  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void Hold() { held_ = true; }
  void AnswerAll(const Status& status) {
    std::vector<Done> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(waiting_);
    }
    for (const Done& done : waiting) done(status);
  }
  Status answer;  // of calls that are not held

 private:
  void Take(std::string call, const Done& done) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
      if (held_) return waiting_.push_back(done);
    }
    done(answer);
  }

  std::mutex mutex_;
  bool held_ = false;
  std::vector<std::string> calls_;
  std::vector<Done> waiting_;
};

class ModelsTest : public ServerTest {
 protected:
  ModelsTest() { control_ = &fake_; }
  FakeControl fake_;
};

constexpr const char* kFake = R"({"model":"fake"})";

TEST_F(ModelsTest, LoadAndUnloadAnswerWhenItHasHappened) {
  fake_.Hold();
  StartServer();
  for (const char* verb : {"load", "unload"}) {
    RawClient client(port());
    client.Send(Post(std::string("/v1/models/") + verb, kFake));
    ASSERT_TRUE(Eventually([&] {
      const std::vector<std::string> calls = fake_.calls();
      return !calls.empty() && calls.back() == std::string(verb) + " fake";
    }));
    fake_.AnswerAll(OkStatus());
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.body, HasSubstr(R"("id":"fake")"));
    EXPECT_THAT(response.body, HasSubstr(R"("status":{"value":"loaded")"));
  }
}

TEST_F(ModelsTest, AnswersOfTheRouterComeAtOnce) {
  fake_.Hold();
  StartServer();
  for (const char* path : {"/models/load", "/models/unload"}) {
    const RawResponse response = Ask(Post(path, kFake));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, R"({"success":true})");
  }
  EXPECT_THAT(fake_.calls(), ElementsAre("load fake", "unload fake"));
  fake_.AnswerAll(OkStatus());
}

TEST_F(ModelsTest, ErrorsAreThoseOfTheControl) {
  fake_.answer = Status(StatusCode::kFailedPrecondition, "model_too_large", "too large");
  StartServer();
  for (const char* path : {"/v1/models/load", "/models/load"}) {
    const RawResponse response = Ask(Post(path, kFake));
    EXPECT_EQ(response.status, 409) << path;
    EXPECT_EQ(CodeOf(response), "model_too_large");
  }
  EXPECT_THAT(Ask(Post("/v2/repository/models/fake/load", "{}")).body, HasSubstr("too large"));
}

TEST_F(ModelsTest, RefusesBodiesWithoutAModel) {
  StartServer();
  for (const char* body : {"{}", "[]", R"({"model":""})", R"({"model":7})", "{"})
    EXPECT_EQ(Ask(Post("/v1/models/load", body)).status, 400) << body;
  EXPECT_TRUE(fake_.calls().empty());
}

TEST_F(ModelsTest, KserveLoadsAndUnloads) {
  StartServer();
  EXPECT_EQ(Ask(Post("/v2/repository/models/fake/load", "{}")).status, 200);
  EXPECT_EQ(Ask(Post("/v2/repository/models/fake/unload", "{}")).status, 200);
  EXPECT_THAT(fake_.calls(), ElementsAre("load fake", "unload fake"));
}

TEST_F(ModelsTest, OllamasEmptyPromptsLoadAndUnload) {
  StartServer();
  EXPECT_THAT(Ask(Post("/api/generate", R"({"model":"fake","keep_alive":"5m"})")).body,
              HasSubstr(R"("done_reason":"load")"));
  EXPECT_THAT(Ask(Post("/api/chat", R"({"model":"fake","messages":[],"keep_alive":0})")).body,
              HasSubstr(R"("done_reason":"unload")"));
  EXPECT_THAT(fake_.calls(), ElementsAre("load fake", "keep fake 300.000000", "unload fake"));
}

// Regression: calls that only load a model were not counted against the limits of their key.
TEST_F(ModelsTest, OllamasLoadsCountAgainstTheCallersLimits) {
  count_load_ = [](const api::CallerRef& caller, const std::string& model) {
    EXPECT_NE(caller, nullptr);
    EXPECT_EQ(model, "fake");
    return ResourceExhausted("rate_limit_exceeded", "too many requests");
  };
  StartServer();
  for (const char* body : {R"({"model":"fake"})", R"({"model":"fake","keep_alive":0})"})
    EXPECT_EQ(Ask(Post("/api/generate", body)).status, 429) << body;
  EXPECT_EQ(Ask(Post("/api/chat", R"({"model":"fake","messages":[]})")).status, 429);
  EXPECT_TRUE(fake_.calls().empty());
}

TEST_F(ModelsTest, OllamasUnloadSparesPinnedModelsWithoutTheScopeAdmin) {
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  const std::string key = "Authorization: Bearer sk-test-0123456789\r\n";
  EXPECT_EQ(Ask(Post("/api/generate", R"({"model":"fake","keep_alive":0})", key)).status, 200);
  EXPECT_THAT(fake_.calls(), ElementsAre("keep fake 0.000000"));
  EXPECT_EQ(Ask(Post("/v1/models/unload", kFake, key)).status, 403);
}

TEST_F(ModelsTest, AListMayReadTheFolderAgain) {
  StartServer();
  EXPECT_THAT(Ask(Get("/models")).body, HasSubstr(R"("id":"fake")"));
  EXPECT_TRUE(fake_.calls().empty());
  EXPECT_EQ(Ask(Get("/models?reload=1")).status, 200);
  EXPECT_THAT(fake_.calls(), ElementsAre("rescan"));
  EXPECT_EQ(Ask(Get("/models?xreload=10")).status, 200);
  EXPECT_THAT(fake_.calls(), ElementsAre("rescan"));
}

TEST_F(ModelsTest, AreNotImplementedWithoutAControl) {
  control_ = nullptr;
  StartServer();
  EXPECT_EQ(Ask(Post("/v1/models/load", kFake)).status, 501);
  EXPECT_EQ(Ask(Get("/models")).status, 200);
}

}  // namespace
}  // namespace tutti::http::testing
