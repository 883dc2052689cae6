// For tests: a service of responses over a scripted model and a store in memory or in a folder,
// under a clock that stands still. Restart() is the end of a process and the start of the next.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/responses/responses.h"
#include "services/responses/testing/scripted_inference.h"
#include "waiting.h"

namespace tutti::responses::testing {

// A temporary folder, deleted with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// While it lives the store does nothing, and takes nothing more; then it has done all there was.
class FullStore {
 public:
  // `queued`: called when it comes next of what waits.
  explicit FullStore(
      store::Store& store, const std::function<void()>& queued = [] {})
      : store_(store) {
    const auto begun = std::make_shared<std::promise<void>>();
    store.Read(
        [begun, released = released_.get_future().share()](store::Database&) {
          begun->set_value();
          released.wait();
          return OkStatus();
        },
        [](const Status&) {});
    queued();
    begun->get_future().wait();
    const auto full = std::make_shared<bool>(false);  // set by Read() itself
    while (!*full) {
      store.Read([](store::Database&) { return OkStatus(); },
                 [full](const Status& status) { *full = *full || !status.ok(); });
    }
  }
  ~FullStore() {
    released_.set_value();
    while (!store_.ReadNow([](store::Database&) { return OkStatus(); }).ok())
      std::this_thread::yield();
  }
  FullStore(const FullStore&) = delete;
  FullStore& operator=(const FullStore&) = delete;

 private:
  store::Store& store_;
  std::promise<void> released_;
};

class ResponsesFixture : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }

  virtual std::vector<store::Migration> Tables() const { return {kResponseTables}; }

  virtual void Start() {
    const std::vector<store::Migration> tables = Tables();
    auto store = store::Store::Open({.folder = folder_->path()}, tables);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    inference_ = std::make_unique<ScriptedInference>(max_num_seqs_);
    responses_ = std::make_unique<Responses>(options_, *inference_, *store_, clock_, UnixSeconds());
  }
  virtual void Stop() {
    responses_.reset();
    inference_.reset();
    store_.reset();
  }
  void Restart() {
    Stop();
    Start();
  }

  std::function<int64_t()> UnixSeconds() {
    return [this] { return clock_.Now().time_since_epoch() / std::chrono::seconds(1) + 1'000'000; };
  }
  void Pass(Duration time) {
    clock_.Advance(time);
    responses_->strand()->Look();
  }
  // Waits until all posted work has run.
  void Barrier() {
    support::Call<int> barrier;
    responses_->strand()->Post([done = barrier.done()] { done(0); });
    barrier.Get();
  }
  // Also waits for the resulting work of the store.
  void Settle() {
    for (int i = 0; i < 4; ++i) {
      Barrier();
      EXPECT_TRUE(store_->ReadNow([](store::Database&) { return OkStatus(); }).ok());
    }
  }
  // Steps until the model is idle.
  void StepAll() {
    Settle();
    while (inference_->Step()) Settle();
  }

  static responses::Call CallOf(const std::string& text, bool store = true,
                                bool background = false) {
    responses::Call call;
    call.owner = "t";
    call.request.prompt = api::ChatPrompt{.messages = {{api::Role::kUser, text, ""}}};
    call.state.store = store;
    call.state.background = background;
    call.state.model = "small";
    call.input = {{api::Role::kUser, text, ""}};
    return call;
  }
  Attachment Begin(responses::Call call) {
    Result<Attachment> attachment = responses_->Start(std::move(call));
    EXPECT_TRUE(attachment.ok()) << attachment.status();
    return attachment.ok() ? *std::move(attachment) : Attachment();
  }
  Result<std::shared_ptr<Response>> Find(const std::string& id, const std::string& owner = "t") {
    support::Call<Result<std::shared_ptr<Response>>> call;
    responses_->Find(owner, id, call.done());
    return call.Get();
  }
  Status Delete(const std::string& id, const std::string& owner = "t") {
    support::Call<Status> call;
    responses_->Delete(owner, id, call.done());
    return call.Get();
  }
  static bool Ended(const std::shared_ptr<Response>& response) {
    return support::Eventually([&] { return response->ended(); });
  }
  static std::vector<std::string> Events(const Response& response, int64_t after = -1) {
    std::vector<std::string> events;
    const auto entries = response.log().Read(after, 100'000);
    EXPECT_TRUE(entries.ok()) << entries.status();
    if (!entries.ok()) return events;
    for (const auto& entry : *entries)
      events.push_back(protocol::EventJson(entry->event, entry->sequence));
    return events;
  }

  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
  Responses::Options options_;
  size_t max_num_seqs_ = 8;
  ManualClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<ScriptedInference> inference_;
  std::unique_ptr<Responses> responses_;
};

}  // namespace tutti::responses::testing
