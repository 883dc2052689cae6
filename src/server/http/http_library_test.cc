// Ollama's pull, copy and delete, over a library of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/http/testing/server_fixture.h"

namespace tutti::http::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Notes the calls. A pull goes on as the test says.
class FakeLibrary final : public api::ModelLibrary {
 public:
  struct State {
    std::mutex mutex;
    api::PullProgress progress;
    bool abandoned = false;
  };

  bool fetches() const override { return may_fetch; }
  Result<std::unique_ptr<Pull>> Begin(const std::string& name) override {
    Note("pull " + name);
    if (!refusal.ok()) return refusal;
    return std::unique_ptr<Pull>(std::make_unique<FakePull>(state_));
  }
  Status Copy(const std::string& source, const std::string& name) override {
    Note("copy " + source + " " + name);
    return refusal;
  }
  void Remove(const std::string& model, Done done) override {
    Note("remove " + model);
    done(refusal);
  }

  void Become(api::PullProgress progress) {
    const std::lock_guard lock(state_->mutex);
    state_->progress = std::move(progress);
  }
  bool abandoned() {
    const std::lock_guard lock(state_->mutex);
    return state_->abandoned;
  }
  std::vector<std::string> calls() {
    const std::lock_guard lock(state_->mutex);
    return calls_;
  }
  Status refusal;
  bool may_fetch = true;

 private:
  class FakePull final : public Pull {
   public:
    explicit FakePull(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~FakePull() override {
      const std::lock_guard lock(state_->mutex);
      state_->abandoned = true;
    }
    api::PullProgress progress() const override {
      const std::lock_guard lock(state_->mutex);
      return state_->progress;
    }

   private:
    const std::shared_ptr<State> state_;
  };

  void Note(std::string call) {
    const std::lock_guard lock(state_->mutex);
    calls_.push_back(std::move(call));
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::vector<std::string> calls_;
};

class LibraryTest : public ServerTest {
 protected:
  LibraryTest() { library_ = &fake_; }
  FakeLibrary fake_;

  static std::string Delete(const std::string& body) {
    std::string request = Post("/api/delete", body);
    return request.replace(0, 4, "DELETE");
  }
  static api::PullProgress Fetching(uint64_t fetched) {
    api::PullProgress progress;
    progress.blobs = {{.digest = "sha256:abc", .total = 8, .fetched = fetched}};
    return progress;
  }
  static api::PullProgress Ended(Status result) {
    api::PullProgress progress;
    progress.ended = true;
    progress.result = std::move(result);
    return progress;
  }
};

constexpr const char* kPull = R"({"model":"o/m:Q8_0"})";

TEST_F(LibraryTest, APullIsALineForEachStep) {
  StartServer();
  RawClient client(port());
  client.Send(Post("/api/pull", kPull));
  ASSERT_TRUE(client.WaitFor("pulling manifest"));
  fake_.Become(Fetching(3));
  ASSERT_TRUE(client.WaitFor(R"("completed":3)"));
  api::PullProgress last = Fetching(8);
  last.ended = true;
  fake_.Become(last);
  const RawResponse response = client.Read();
  EXPECT_EQ(response.Header("content-type"), "application/x-ndjson");
  EXPECT_EQ(response.body,
            "{\"status\":\"pulling manifest\"}\n"
            "{\"status\":\"pulling abc\",\"digest\":\"sha256:abc\",\"total\":8,\"completed\":3}\n"
            "{\"status\":\"pulling abc\",\"digest\":\"sha256:abc\",\"total\":8,\"completed\":8}\n"
            "{\"status\":\"verifying sha256 digest\"}\n{\"status\":\"writing manifest\"}\n"
            "{\"status\":\"success\"}\n");
  EXPECT_THAT(fake_.calls(), ElementsAre("pull o/m:Q8_0"));
}

TEST_F(LibraryTest, CallersSeeWhetherModelsAreFetched) {
  StartServer();
  EXPECT_THAT(Ask(Get("/v1/me")).body, HasSubstr(R"("library":true,"pull":true)"));
  fake_.may_fetch = false;
  EXPECT_THAT(Ask(Get("/v1/me")).body, HasSubstr(R"("library":true,"pull":false)"));
}

TEST_F(LibraryTest, APullThatFailsEndsWithALine) {
  StartServer();
  fake_.Become(Ended(NotFound("model_not_found", "no such model")));
  RawResponse response = Ask(Post("/api/pull", kPull));
  EXPECT_EQ(response.status, 200) << "the stream has begun";
  EXPECT_THAT(response.body, HasSubstr("{\"error\":\"no such model\"}\n"));
  EXPECT_EQ(response.body.find("success"), std::string::npos);
  response = Ask(Post("/api/pull", R"({"model":"o/m","stream":false})"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body, R"({"error":"no such model"})");
}

TEST_F(LibraryTest, APullWithoutAStreamAnswersOnce) {
  StartServer();
  fake_.Become(Ended(OkStatus()));
  const RawResponse response = Ask(Post("/api/pull", R"({"model":"o/m","stream":false})"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "{\"status\":\"success\"}\n");
}

TEST_F(LibraryTest, APullIsAbandonedWithItsClient) {
  StartServer();
  {
    RawClient client(port());
    client.Send(Post("/api/pull", kPull));
    ASSERT_TRUE(client.WaitFor("pulling manifest"));
    EXPECT_FALSE(fake_.abandoned());
  }
  EXPECT_TRUE(Eventually([&] { return fake_.abandoned(); }));
}

TEST_F(LibraryTest, CopyAndDeleteNameTheModel) {
  StartServer();
  const RawResponse copied =
      Ask(Post("/api/copy", R"({"source":"fake:latest","destination":"mine:latest"})"));
  EXPECT_EQ(copied.status, 200);
  EXPECT_EQ(copied.body, "");
  EXPECT_EQ(Ask(Delete(R"({"model":"mine:latest"})")).status, 200);
  EXPECT_THAT(fake_.calls(), ElementsAre("copy fake mine", "remove mine"));
  EXPECT_EQ(Ask(Post("/api/copy", R"({"source":"none","destination":"mine"})")).status, 404);
  fake_.refusal = Status(StatusCode::kFailedPrecondition, "model_in_use", "it is loaded");
  const RawResponse refused = Ask(Delete(R"({"model":"fake"})"));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body, R"({"error":"it is loaded"})");
}

TEST_F(LibraryTest, RefusesBodiesThatNameNoModel) {
  StartServer();
  for (const char* body : {"{}", "[]", R"({"model":""})", R"({"model":7})", "{"}) {
    EXPECT_EQ(Ask(Post("/api/pull", body)).status, 400) << body;
    EXPECT_EQ(Ask(Post("/api/copy", body)).status, 400) << body;
    EXPECT_EQ(Ask(Delete(body)).status, 400) << body;
  }
  EXPECT_THAT(fake_.calls(), IsEmpty());
}

TEST_F(LibraryTest, NeedsTheScopeAdmin) {
  HttpOptions options;
  options.api_key = "sk-test-0123456789";
  StartServer(options);
  const std::string key = "Authorization: Bearer sk-test-0123456789\r\n";
  EXPECT_EQ(Ask(Post("/api/pull", kPull, key)).status, 403);
  EXPECT_EQ(Ask(Post("/api/copy", R"({"source":"a","destination":"b"})", key)).status, 403);
  EXPECT_THAT(fake_.calls(), IsEmpty());
}

TEST_F(LibraryTest, IsNotImplementedByAFrontend) {
  library_ = nullptr;
  StartServer();
  EXPECT_EQ(Ask(Post("/api/pull", kPull)).status, 501);
  EXPECT_THAT(Ask(Delete(R"({"model":"fake"})")).body, HasSubstr("workers"));
}

}  // namespace
}  // namespace tutti::http::testing
