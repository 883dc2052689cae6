// Pulls that need no hub: refused, offline, or of a model that is listed. Those that fetch are in
// tests/e2e/test_ollama_library.py.
#include "app/loading/model_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"

namespace tutti::app {
namespace {

using ::testing::HasSubstr;

class ModelLibraryTest : public ::testing::Test {
 protected:
  ModelLibraryTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream file(folder_ + "/a.gguf", std::ios::binary);
    const auto bytes = gguf::testing::MakeCheckpoint({.seed = 1}).Build();
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    inference_.Expect({});
    ModelManagerOptions options;
    options.folder = folder_;
    manager_ = std::make_unique<ModelManager>(options, inference_, log_);
    EXPECT_TRUE(manager_->List({}, {}).ok());
  }
  ~ModelLibraryTest() override { std::filesystem::remove_all(folder_); }

  // An offline hub: no test connects.
  std::unique_ptr<ModelLibrary> Make(bool allowed) {
    models::HubSettings hub;
    hub.offline = true;
    hub.cache_folder = folder_ + "/hub";
    return std::make_unique<ModelLibrary>(
        ModelLibrary::Options{.allowed = allowed, .hub = std::move(hub)}, *manager_, log_);
  }

  static Status ResultOf(const api::ModelLibrary::Pull& pull) {
    for (int i = 0; i < 1000; ++i) {
      const api::PullProgress progress = pull.progress();
      if (progress.ended) return progress.result;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return Internal("it did not end");
  }

  const std::string folder_ =
      ::testing::TempDir() + "model_library_test." + std::to_string(getpid());
  const Settings settings_ =
      Settings::Resolve({.flags = {{"threads", "1"}}, .environment = {}, .file = ""}).value();
  Logger log_{LogLevel::kOff};
  LocalInference inference_{settings_, nullptr};
  std::unique_ptr<ModelManager> manager_;
};

TEST_F(ModelLibraryTest, PullsNothingUnlessItIsAllowed) {
  const auto library = Make(false);
  const Status status = library->Begin("org/m").status();
  EXPECT_EQ(status.reason(), "pull_not_allowed");
  EXPECT_THAT(status.message(), HasSubstr("--pull on-demand"));
  const auto listed = library->Begin("a");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_TRUE(ResultOf(**listed).ok()) << "it is here";
}

// 60,000 files kept an I/O thread busy for most of a second.
TEST(ShownBlobs, AreTheLargestAndOneForAllOthers) {
  models::PullState state;
  for (int i = 0; i < 60'000; ++i) {
    models::BlobState& blob = state.blobs.emplace_back();
    blob.hash = std::to_string(i);
    blob.size = i < 1000 ? 7 : 2;
    blob.bytes = 1;
  }
  const std::vector<api::PullBlob> shown = ShownBlobs(state);
  ASSERT_EQ(shown.size(), 1001U);
  EXPECT_TRUE(shown[999].digest.ends_with(":999"));
  EXPECT_EQ(shown[1000].digest, "others:59000 files");
  EXPECT_EQ(shown[1000].total, 2U * 59'000);
  EXPECT_EQ(shown[1000].fetched, 59'000U);
  state.blobs.resize(1);
  EXPECT_EQ(ShownBlobs(state).size(), 1U);
}

TEST_F(ModelLibraryTest, RefusesNamesThatNoHubHas) {
  const auto library = Make(true);
  for (const char* name :
       {"llama3.2:1b", "https://example.org/m.gguf", "org/m:", "../m", "o/m/x"}) {
    const Status status = library->Begin(name).status();
    EXPECT_EQ(status.reason(), "invalid_value") << name;
    EXPECT_EQ(status.param(), "model") << name;
  }
}

TEST_F(ModelLibraryTest, AFailedPullHasNoPathForClients) {
  const auto library = Make(true);
  const auto pull = library->Begin("org/m");
  ASSERT_TRUE(pull.ok()) << pull.status();
  const Status status = ResultOf(**pull);
  EXPECT_EQ(status.reason(), "pull_failed");
  EXPECT_EQ(status.message().find(folder_), std::string::npos);
  EXPECT_FALSE(manager_->Lists("org/m"));
  EXPECT_EQ(library->stats().failed, 1U);
  library->Stop();
  EXPECT_EQ(library->Begin("org/m").status().reason(), "draining");
}

// A name that is removed while it is pulled was then looked up as the path of a file.
TEST_F(ModelLibraryTest, APullServesNoFileByThePathOfARemovedName) {
  std::filesystem::create_directories(folder_ + "/other");
  std::filesystem::copy_file(folder_ + "/a.gguf", folder_ + "/other/secret.gguf");
  const std::string path = std::filesystem::relative(folder_ + "/other/secret.gguf").string();
  const auto library = Make(true);
  std::atomic<bool> stop{false};
  std::thread names([&] {
    while (!stop.load()) {
      (void)manager_->AddAlias("a", path);
      manager_->Remove(path, [](const Status&) {});
    }
  });
  for (int i = 0; i < 300; ++i) {
    if (const auto pull = library->Begin(path); pull.ok()) (void)ResultOf(**pull);
  }
  stop.store(true);
  names.join();
  for (const std::string& name : manager_->names()) EXPECT_THAT(name, ::testing::AnyOf("a", path));
}

// Regression: the error of a known model that is not in the cache had the path of its file.
TEST_F(ModelLibraryTest, AKnownModelThatIsMissingHasNoPath) {
  const char* const cache = std::getenv("TUTTI_CACHE");
  const std::string before = cache == nullptr ? "" : cache;
  setenv("TUTTI_CACHE", (folder_ + "/none").c_str(), 1);
  const auto library = Make(true);
  const auto pull = library->Begin("all-minilm-l6-v2");
  ASSERT_TRUE(pull.ok()) << pull.status();
  const Status status = ResultOf(**pull);
  cache == nullptr ? unsetenv("TUTTI_CACHE") : setenv("TUTTI_CACHE", before.c_str(), 1);
  EXPECT_EQ(status.reason(), "model_not_found");
  EXPECT_EQ(status.message().find('/'), std::string::npos) << status;
}

// Regression: a model was fetched whole before its name was found too long to be served.
TEST_F(ModelLibraryTest, RefusesNamesThatAreTooLongAtOnce) {
  const auto library = Make(true);
  const std::string name = "org/" + std::string(90, 'm') + ":" + std::string(60, 'q');
  const Status status = library->Begin(name).status();
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_EQ(status.param(), "model");
  EXPECT_THAT(status.message(), HasSubstr("128"));
}

TEST_F(ModelLibraryTest, CopiesUnderNamesThatCanBeServed) {
  const auto library = Make(false);
  EXPECT_TRUE(library->Copy("a", "mine").ok());
  EXPECT_TRUE(manager_->Lists("mine"));
  EXPECT_EQ(library->Copy("a", "x\n").reason(), "invalid_value");
  EXPECT_EQ(library->Copy("a", std::string(200, 'x')).reason(), "invalid_value");
}

}  // namespace
}  // namespace tutti::app
