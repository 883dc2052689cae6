// Models of a folder that are loaded by requests, unloaded, evicted and refused, on small generated
// checkpoints.
#include "app/loading/model_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/blocking_waker.h"
#include "app/loading/adapter_manager.h"
#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"

namespace tutti::app {
namespace {

using api::ModelState;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(ParseKeepAlive, ReadsSecondsDurationsAndOff) {
  EXPECT_EQ(*ParseKeepAlive("off", "keep-alive"), api::kForever);
  EXPECT_EQ(*ParseKeepAlive("300", "keep-alive"), Duration(seconds(300)));
  EXPECT_EQ(*ParseKeepAlive("5m", "keep-alive"), Duration(seconds(300)));
  EXPECT_EQ(*ParseKeepAlive("0", "keep-alive"), Duration::zero());
  EXPECT_EQ(*ParseKeepAlive("-1", "keep-alive"), api::kForever);
  const Status status = ParseKeepAlive("soon", "keep-alive").status();
  EXPECT_EQ(status.param(), "keep-alive");
  EXPECT_THAT(status.message(), HasSubstr("soon"));
}

// Waits for the one call of a ModelControl::Done.
class Outcome {
 public:
  api::ModelControl::Done Done() {
    return [state = state_](Status status) {
      const std::lock_guard<std::mutex> lock(state->mutex);
      EXPECT_FALSE(state->status.has_value()) << "called twice";
      state->status = std::move(status);
      state->changed.notify_all();
    };
  }
  Status Wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    if (!state_->changed.wait_for(lock, seconds(60), [&] { return state_->status.has_value(); }))
      return Internal("it was not called");
    return *state_->status;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Status> status;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

class ModelManagerTest : public ::testing::Test {
 protected:
  ModelManagerTest() {
    std::filesystem::create_directories(folder_);
    inference_.Expect({});
    options_.folder = folder_;
  }
  ~ModelManagerTest() override {
    manager_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& name, uint64_t seed = 1) {
    std::ofstream file(folder_ + "/" + name + ".gguf", std::ios::binary);
    const auto bytes = gguf::testing::MakeCheckpoint({.seed = seed}).Build();
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  // Gives a model's file another path of the same name.
  void Rename(const std::string& name) {
    const std::string file = folder_ + "/" + name;
    std::filesystem::rename(file + ".gguf", file + ".GGUF");
  }

  void Start() {
    manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
    ASSERT_TRUE(manager_->List({}, {}).ok());
    ASSERT_TRUE(manager_->Start().ok());
  }

  api::ModelStatus StatusOf(const std::string& model) {
    for (const api::ModelInfo& info : inference_.gateway().Models())
      if (info.id == model) return info.status;
    ADD_FAILURE() << model << " is not listed";
    return {};
  }

  bool Becomes(const std::string& model, ModelState state) {
    for (int i = 0; i < 6000; ++i) {
      manager_->Look();
      if (StatusOf(model).state == state) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  // The loads. A load is counted a moment after its requests were resumed, so this waits for them.
  uint64_t LoadsOnceThereAre(uint64_t expected) {
    for (int i = 0; i < 1000 && manager_->stats().loads < expected; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    return manager_->stats().loads;
  }

  // Bytes of one model, all being of the same shape.
  int64_t BytesOfOne() {
    const auto opened = inference_.OpenInBackground({"x", folder_ + "/a.gguf"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->info().status.memory_bytes;
  }

  static api::GenerateRequest Request(const std::string& model, int max_tokens = 4) {
    api::GenerateRequest request;
    request.model = model;
    request.prompt = api::TextPrompt{.text = "Hello"};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  // The status of the whole request, and its text.
  std::pair<Status, std::string> Ask(api::GenerateRequest request) {
    const auto waker = std::make_shared<BlockingWaker>();
    Result<api::Generation> generation = inference_.gateway().Generate(std::move(request), waker);
    if (!generation.ok()) return {generation.status(), ""};
    std::string text;
    while (const api::StreamEvent* event = waker->Next(*generation)) text += event->text;
    return {generation->stream().status(), text};
  }

  Status Load(const std::string& model) {
    Outcome outcome;
    manager_->Load(model, outcome.Done());
    return outcome.Wait();
  }
  Status Unload(const std::string& model) {
    Outcome outcome;
    manager_->Unload(model, outcome.Done());
    return outcome.Wait();
  }

  Status Remove(const std::string& model) {
    Outcome outcome;
    manager_->Remove(model, outcome.Done());
    return outcome.Wait();
  }

  static std::map<std::string, std::string> Flags() {
    return {{"kv-cache-bytes", "1MiB"}, {"context", "64"}, {"threads", "1"}};
  }

  const std::string folder_ =
      ::testing::TempDir() + "model_manager_test." + std::to_string(getpid());
  const Settings settings_ =
      Settings::Resolve({.flags = Flags(), .environment = {}, .file = ""}).value();
  Logger log_{LogLevel::kOff};
  LocalInference inference_{settings_, nullptr};
  ModelManagerOptions options_;
  std::unique_ptr<ModelManager> manager_;
};

TEST_F(ModelManagerTest, ARequestLoadsItsModel) {
  Write("a");
  Start();
  EXPECT_EQ(StatusOf("a").state, ModelState::kUnloaded);
  const auto [status, text] = Ask(Request("a"));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(StatusOf("a").state, ModelState::kLoaded);
  EXPECT_GT(StatusOf("a").memory_bytes, 1 << 20);
  EXPECT_EQ(Ask(Request("a")).second, text) << "the same answer without the wait";
  EXPECT_EQ(LoadsOnceThereAre(1), 1U);
}

TEST_F(ModelManagerTest, ManyRequestsLoadTheirModelOnce) {
  Write("a");
  Start();
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  clients.reserve(8);
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] { good += Ask(Request("a")).first.ok() ? 1 : 0; });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(LoadsOnceThereAre(1), 1U);
}

TEST_F(ModelManagerTest, TokenizingLoadsToo) {
  Write("a");
  Start();
  const auto tokens = inference_.gateway().Tokenize(
      {.model = "a", .prompt = api::TextPrompt{.text = "Hello"}, .patience = seconds(60)});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_FALSE(tokens->tokens.empty());
}

TEST_F(ModelManagerTest, UnknownModelsAreNotFound) {
  Write("a");
  Start();
  EXPECT_EQ(Ask(Request("b")).first.reason(), "model_not_found");
  EXPECT_EQ(Load("b").reason(), "model_not_found");
  EXPECT_EQ(Unload("b").reason(), "model_not_found");
}

TEST_F(ModelManagerTest, AnUnloadedModelIsLoadedAgain) {
  Write("a");
  Start();
  const std::string text = Ask(Request("a")).second;
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_EQ(StatusOf("a").state, ModelState::kUnloaded);
  EXPECT_EQ(inference_.Loaded("a"), nullptr);
  EXPECT_TRUE(Unload("a").ok()) << "once more is no error";
  EXPECT_TRUE(Load("a").ok());
  EXPECT_TRUE(Load("a").ok()) << "the same";
  EXPECT_EQ(Ask(Request("a")).second, text);
  EXPECT_EQ(LoadsOnceThereAre(2), 2U);
}

TEST_F(ModelManagerTest, AnUnloadWaitsForRunningRequests) {
  Write("a");
  Start();
  ASSERT_TRUE(Load("a").ok());
  const auto waker = std::make_shared<BlockingWaker>();
  Result<api::Generation> generation = inference_.gateway().Generate(Request("a", 40), waker);
  ASSERT_TRUE(generation.ok());
  Outcome unloaded;
  manager_->Unload("a", unloaded.Done());
  while (waker->Next(*generation) != nullptr) {
  }
  EXPECT_TRUE(generation->stream().status().ok()) << generation->stream().status();
  EXPECT_TRUE(unloaded.Wait().ok());
}

TEST_F(ModelManagerTest, AnUnloadEndsRequestsAtItsLimit) {
  Write("a");
  options_.unload_limit = milliseconds(50);
  Start();
  ASSERT_TRUE(Load("a").ok());
  // Its tokens are never granted: it would run for ever.
  Result<gateway::Gateway::Stepwise> endless =
      inference_.gateway().GenerateStepwise(Request("a"), nullptr);
  ASSERT_TRUE(endless.ok()) << endless.status();
  EXPECT_TRUE(Unload("a").ok());
  ASSERT_TRUE(endless->generation.stream().ended());
  EXPECT_EQ(endless->generation.stream().status().reason(), "draining");
}

TEST_F(ModelManagerTest, EvictsTheIdleModelThatWasUsedLeastRecently) {
  for (const char* name : {"a", "b", "c"}) Write(name);
  options_.budget = 5 * BytesOfOne() / 2;
  Start();
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  EXPECT_TRUE(Ask(Request("b")).first.ok());
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  EXPECT_TRUE(Ask(Request("c")).first.ok());
  EXPECT_EQ(StatusOf("a").state, ModelState::kLoaded);
  EXPECT_EQ(StatusOf("b").state, ModelState::kUnloaded);
  EXPECT_EQ(StatusOf("c").state, ModelState::kLoaded);
  EXPECT_EQ(manager_->stats().unloads[2], 1U);
  EXPECT_LE(manager_->stats().bytes, options_.budget);
}

TEST_F(ModelManagerTest, NeverEvictsPinnedModels) {
  for (const char* name : {"a", "b", "c"}) Write(name);
  options_.budget = 5 * BytesOfOne() / 2;
  options_.pins = {"a"};
  Start();
  ASSERT_TRUE(Becomes("a", ModelState::kLoaded));
  EXPECT_TRUE(Ask(Request("b")).first.ok());
  EXPECT_TRUE(Ask(Request("c")).first.ok());
  EXPECT_EQ(StatusOf("a").state, ModelState::kLoaded);
  EXPECT_EQ(StatusOf("b").state, ModelState::kUnloaded);
}

TEST_F(ModelManagerTest, RefusesAModelThatNeverFits) {
  Write("a");
  Write("b");
  options_.budget = 3 * BytesOfOne() / 2;
  options_.pins = {"a"};
  Start();
  ASSERT_TRUE(Becomes("a", ModelState::kLoaded));
  const Status status = Ask(Request("b")).first;
  EXPECT_EQ(status.reason(), "model_too_large");
  EXPECT_THAT(status.message(), HasSubstr("memory budget"));
  EXPECT_TRUE(Ask(Request("a")).first.ok());
}

TEST_F(ModelManagerTest, MoreModelsThanFitAreServedInTurn) {
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    names.push_back(std::string(1, static_cast<char>('a' + i)));
    Write(names.back());
  }
  options_.budget = 5 * BytesOfOne() / 2;
  Start();
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  clients.reserve(names.size());
  for (const std::string& name : names) {
    clients.emplace_back([&, name] {
      for (int i = 0; i < 5; ++i) good += Ask(Request(name)).first.ok() ? 1 : 0;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 30);
  EXPECT_LE(manager_->stats().bytes, options_.budget);
}

TEST_F(ModelManagerTest, ABrokenFileFailsAloneAndMayBeReplaced) {
  Write("a");
  std::ofstream(folder_ + "/broken.gguf") << "no model";
  Start();
  const Status status = Ask(Request("broken")).first;
  EXPECT_EQ(status.reason(), "model_load_failed");
  EXPECT_EQ(status.message().find(folder_), std::string::npos) << "no paths for clients";
  EXPECT_EQ(StatusOf("broken").state, ModelState::kFailed);
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  Write("broken");
  EXPECT_TRUE(Load("broken").ok()) << "an operator's load does not wait for the next attempt";
  EXPECT_TRUE(Ask(Request("broken")).first.ok());
}

TEST_F(ModelManagerTest, AKeepAliveUnloadsAnIdleModel) {
  Write("a");
  options_.keep_alive = milliseconds(50);
  Start();
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  EXPECT_TRUE(Becomes("a", ModelState::kUnloaded));
  EXPECT_EQ(manager_->stats().unloads[1], 1U);
  api::GenerateRequest request = Request("a");
  request.keep_alive = api::kForever;
  EXPECT_TRUE(Ask(std::move(request)).first.ok());
  std::this_thread::sleep_for(milliseconds(100));
  manager_->Look();
  EXPECT_EQ(StatusOf("a").state, ModelState::kLoaded) << "the request's own counts";
  EXPECT_EQ(StatusOf("a").expires_unix_s, 0);
  manager_->KeepAlive("a", Duration::zero());
  EXPECT_TRUE(Becomes("a", ModelState::kUnloaded));
}

TEST_F(ModelManagerTest, RefusesToWaitWhereTheOperatorSaysSo) {
  Write("a");
  options_.wait = false;
  Start();
  const Status status = Ask(Request("a")).first;
  EXPECT_EQ(status.reason(), "model_loading");
  EXPECT_TRUE(status.retry_after().has_value());
  EXPECT_TRUE(Becomes("a", ModelState::kLoaded)) << "the model is loaded all the same";
  EXPECT_TRUE(Ask(Request("a")).first.ok());
}

TEST_F(ModelManagerTest, ACancelledRequestEndsWhileItWaits) {
  Write("a");
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({}, {}).ok());  // not started: nothing is loaded
  const auto waker = std::make_shared<BlockingWaker>();
  Result<api::Generation> generation = inference_.gateway().Generate(Request("a"), waker);
  ASSERT_TRUE(generation.ok());
  EXPECT_EQ(manager_->stats().waiting, 1);
  generation->control()->Cancel();
  manager_->Look();
  ASSERT_TRUE(generation->stream().ended());
  EXPECT_EQ(generation->stream().status().reason(), "cancelled");
  EXPECT_EQ(manager_->stats().waiting, 0);
}

// Regression: calls of Load() for a model that waits for room were neither limited nor ended.
TEST_F(ModelManagerTest, LoadsThatWaitAreLimitedAndEnd) {
  Write("a");
  Write("b", 2);
  options_.wait_limits.requests = 2;
  options_.wait_limits.time = milliseconds(20);
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({}, {}).ok());  // not started: nothing is loaded
  Outcome first, second, third;
  manager_->Load("a", first.Done());
  manager_->Load("b", second.Done());
  manager_->Load("a", third.Done());
  EXPECT_EQ(third.Wait().reason(), "queue_full");
  std::this_thread::sleep_for(milliseconds(30));
  manager_->Look();
  EXPECT_EQ(first.Wait().reason(), "model_loading");
  EXPECT_EQ(second.Wait().reason(), "model_loading");
  Outcome fourth;
  manager_->Load("a", fourth.Done());
  manager_->Stop();
  EXPECT_EQ(fourth.Wait().reason(), "draining") << "the others have left";
}

// Regression: a file that came later took the name of an adapter, which was lost.
TEST_F(ModelManagerTest, NoModelTakesTheNameOfAnAdapter) {
  Write("a");
  Start();
  inference_.KeepAdapter({.name = "sql", .base = "a", .path = "sql.gguf"}, folder_);
  Write("sql", 2);
  Write("z", 2);
  manager_->Rescan();
  for (int i = 0; i < 1000 && !manager_->Lists("z"); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(manager_->Lists("z"));
  EXPECT_FALSE(manager_->Lists("sql"));
  EXPECT_EQ(manager_->AddPulled({"sql", folder_ + "/x.gguf"}, nullptr).reason(), "model_exists");
  EXPECT_EQ(manager_->AddAlias("a", "sql").reason(), "model_exists");
}

// Regression: requests that waited for an adapter which was unloaded waited for their time limit.
TEST_F(ModelManagerTest, AnUnloadedAdapterEndsWaitingRequests) {
  Write("a");
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({}, {}).ok());  // not started: nothing is loaded
  inference_.KeepAdapter({.name = "sql", .base = "a", .path = "sql.gguf"}, folder_);
  manager_->Relist();
  AdapterManager adapters(inference_, {.folder = folder_, .max_loaded = 1}, log_);
  Result<api::Generation> generation =
      inference_.gateway().Generate(Request("sql"), std::make_shared<BlockingWaker>());
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(manager_->stats().waiting, 1);
  Outcome unloaded;
  adapters.Unload("sql", unloaded.Done());
  EXPECT_TRUE(unloaded.Wait().ok());
  ASSERT_TRUE(generation->stream().ended());
  EXPECT_EQ(generation->stream().status().reason(), "model_not_found");
}

TEST_F(ModelManagerTest, AStopEndsWaitingRequests) {
  Write("a");
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({}, {}).ok());
  const auto waker = std::make_shared<BlockingWaker>();
  Result<api::Generation> generation = inference_.gateway().Generate(Request("a"), waker);
  ASSERT_TRUE(generation.ok());
  manager_->Stop();
  ASSERT_TRUE(generation->stream().ended());
  EXPECT_EQ(generation->stream().status().reason(), "draining");
  EXPECT_EQ(Ask(Request("a")).first.reason(), "draining");
}

// A load of a model of the command line that was asked for before the manager started, when the
// server had announced the model already, was never answered.
TEST_F(ModelManagerTest, AnswersLoadsThatTheStartHasDone) {
  Write("a");
  const ModelRef ref{"main", folder_ + "/a.gguf"};
  auto opened = inference_.Open(ref);
  ASSERT_TRUE(opened.ok()) << opened.status();
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({ref}, {opened->info().status.memory_bytes}).ok());
  Outcome early, late;
  manager_->Load("main", early.Done());
  ASSERT_TRUE(inference_.Load(*std::move(opened)).ok());
  manager_->Load("main", late.Done());
  ASSERT_TRUE(manager_->Start().ok());
  EXPECT_EQ(early.Wait().reason(), "");
  EXPECT_EQ(late.Wait().reason(), "");
}

TEST_F(ModelManagerTest, ARescanFindsNewFilesAndForgetsRemovedOnes) {
  Write("a");
  Start();
  Write("b");
  std::filesystem::remove(folder_ + "/a.gguf");
  manager_->Rescan();
  for (int i = 0; i < 1000 && Ask(Request("b")).first.reason() == "model_not_found"; ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(Ask(Request("b")).first.ok());
  EXPECT_EQ(Ask(Request("a")).first.reason(), "model_not_found");
}

// A request had wanted the model between the reload and the reading of the folder: the model kept
// the name of a file that was gone, and no later request could load it.
TEST_F(ModelManagerTest, ARescanGivesAWantedModelItsNewFile) {
  Write("a");
  manager_ = std::make_unique<ModelManager>(options_, inference_, log_);
  ASSERT_TRUE(manager_->List({}, {}).ok());
  Outcome loaded;
  manager_->Load("a", loaded.Done());
  Rename("a");
  manager_->Rescan();
  ASSERT_TRUE(manager_->Start().ok());
  EXPECT_EQ(loaded.Wait().reason(), "");
  EXPECT_EQ(Ask(Request("a")).first.reason(), "");
}

TEST_F(ModelManagerTest, ARescanGivesALoadedModelItsNewFile) {
  Write("a");
  Start();
  ASSERT_TRUE(Load("a").ok());
  Rename("a");
  Write("b");
  manager_->Rescan();
  for (int i = 0; i < 1000 && !manager_->Lists("b"); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(Ask(Request("a")).first.reason(), "");
  EXPECT_EQ(manager_->stats().loads, 1u);
  EXPECT_EQ(Unload("a").reason(), "");
  EXPECT_EQ(Ask(Request("a")).first.reason(), "");
}

TEST_F(ModelManagerTest, AModelInUseWhoseFileIsGoneIsForgottenWhenItIsUnloaded) {
  Write("a");
  Start();
  ASSERT_TRUE(Load("a").ok());
  std::filesystem::remove(folder_ + "/a.gguf");
  Write("b");
  manager_->Rescan();
  for (int i = 0; i < 1000 && !manager_->Lists("b"); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  EXPECT_TRUE(Unload("a").ok());
  for (int i = 0; i < 1000 && manager_->Lists("a"); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_THAT(manager_->names(), ::testing::ElementsAre("b"));
}

TEST_F(ModelManagerTest, ANewFileTakesNoFurtherNameOfAModel) {
  Write("a");
  Start();
  ASSERT_TRUE(manager_->AddAlias("a", "b").ok());
  Write("b");
  Write("c");
  manager_->Rescan();
  for (int i = 0; i < 1000 && Ask(Request("c")).first.reason() == "model_not_found"; ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_THAT(manager_->names(), ::testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_TRUE(Ask(Request("a")).first.ok());
  EXPECT_TRUE(Ask(Request("b")).first.ok());
}

TEST_F(ModelManagerTest, RefusesAPinThatNamesNoModel) {
  Write("a");
  options_.pins = {"none"};
  ModelManager manager(options_, inference_, log_);
  const Status status = manager.List({}, {});
  EXPECT_EQ(status.param(), "pin");
  EXPECT_THAT(status.message(), HasSubstr("none"));
}

TEST_F(ModelManagerTest, RefusesModelsOfTheStartBeyondTheBudget) {
  options_.budget = 1 << 20;
  options_.budget_is_set = true;
  ModelManager manager(options_, inference_, log_);
  EXPECT_EQ(manager.List({{"a", "a.gguf"}}, {2 << 20}).param(), "memory.budget");
}

TEST_F(ModelManagerTest, AFurtherNameAnswersAsTheModel) {
  Write("a");
  Write("b");
  Start();
  EXPECT_EQ(manager_->AddAlias("none", "x").reason(), "model_not_found");
  EXPECT_EQ(manager_->AddAlias("a", "b").reason(), "model_exists");
  ASSERT_TRUE(manager_->AddAlias("a", "copy").ok());
  EXPECT_TRUE(manager_->AddAlias("copy", "copy").ok()) << "once more is no error";
  const auto [status, text] = Ask(Request("copy"));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Ask(Request("a")).second, text);
  ASSERT_TRUE(manager_->AddAlias("copy", "second").ok()) << "while it is loaded";
  EXPECT_EQ(Ask(Request("second")).second, text);
  EXPECT_EQ(LoadsOnceThereAre(1), 1U);
  EXPECT_TRUE(Unload("copy").ok());
  EXPECT_EQ(StatusOf("a").state, ModelState::kUnloaded);
  EXPECT_TRUE(Remove("copy").ok());
  EXPECT_EQ(Ask(Request("copy")).first.reason(), "model_not_found");
  EXPECT_TRUE(Ask(Request("second")).first.ok());
}

TEST_F(ModelManagerTest, FurtherNamesAreLimited) {
  Write("a");
  Start();
  for (int i = 0; i < 64; ++i)
    ASSERT_TRUE(manager_->AddAlias("a", "n" + std::to_string(i)).ok()) << i;
  EXPECT_EQ(manager_->AddAlias("a", "one more").reason(), "alias_limit");
}

TEST_F(ModelManagerTest, APulledModelIsServedAndRemoved) {
  Write("a");
  Start();
  const std::string pulled = folder_ + "/.pulled.gguf";  // not listed with the folder
  std::filesystem::copy_file(folder_ + "/a.gguf", pulled);
  const auto remove = [pulled] {
    return std::filesystem::remove(pulled) ? OkStatus() : Internal("not there");
  };
  EXPECT_EQ(manager_->AddPulled({"a", pulled}, remove).reason(), "model_exists");
  ASSERT_TRUE(manager_->AddPulled({"o/m:Q8_0", pulled}, remove).ok());
  ASSERT_TRUE(manager_->AddPulled({"hf.co/o/m:Q8_0", pulled}, remove).ok());
  EXPECT_EQ(Ask(Request("hf.co/o/m:Q8_0")).second, Ask(Request("a")).second);
  EXPECT_EQ(Remove("o/m:Q8_0").reason(), "model_in_use") << "it has a further name";
  ASSERT_TRUE(Remove("hf.co/o/m:Q8_0").ok());
  EXPECT_THAT(Remove("o/m:Q8_0").message(), HasSubstr("unload it first"));
  ASSERT_TRUE(Unload("o/m:Q8_0").ok());
  ASSERT_TRUE(Remove("o/m:Q8_0").ok());
  EXPECT_FALSE(std::filesystem::exists(pulled));
  EXPECT_FALSE(manager_->Lists("o/m:Q8_0"));
  EXPECT_EQ(Ask(Request("o/m:Q8_0")).first.reason(), "model_not_found");
  EXPECT_EQ(Remove("o/m:Q8_0").reason(), "model_not_found");
}

TEST_F(ModelManagerTest, ModelsThatWereNotPulledStay) {
  Write("a");
  options_.pins = {"a"};
  Write("b");
  Start();
  EXPECT_THAT(Remove("a").message(), HasSubstr("pinned"));
  EXPECT_THAT(Remove("b").message(), HasSubstr("--models"));
  ASSERT_TRUE(manager_->AddPulled({"known", folder_ + "/known.gguf"}, nullptr).ok());
  EXPECT_THAT(Remove("known").message(), HasSubstr("not pulled"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/b.gguf"));
}

TEST_F(ModelManagerTest, AModelWhoseFilesStayIsStillListed) {
  Write("a");
  Start();
  const auto busy = [] { return Unavailable("cache_busy", "it is being written"); };
  ASSERT_TRUE(manager_->AddPulled({"m", folder_ + "/.m.gguf"}, busy).ok());
  EXPECT_THAT(Remove("m").message(), HasSubstr("try again later"));
  EXPECT_TRUE(manager_->Lists("m"));
}

}  // namespace
}  // namespace tutti::app
