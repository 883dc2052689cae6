// Models that come and go at workers, as the frontend's pool sees them: the list, the choice of a
// worker, loads and unloads. The test writes the workers' messages.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/inference_codec.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {
namespace {

using enum api::ModelState;

struct NoConnection final : WorkerPool::Connection {
  void Wake() override {}
  void Close() override {}
};

api::ModelInfo Model(const std::string& id, api::ModelState state = kUnloaded,
                     const std::string& digest = "d") {
  api::ModelInfo model;
  model.id = id;
  model.max_model_len = 128;
  model.vocab_size = 256;
  model.digest = digest;
  model.status = {.state = state, .pinned = false, .memory_bytes = 40};
  return model;
}

class ModelsOfWorkers : public ::testing::Test {
 protected:
  using Models = std::vector<api::ModelInfo>;
  WorkerPool::WorkerRef Add(const std::string& name, const Models& models, int64_t budget = 100) {
    v1::Hello hello;
    hello.set_protocol(kProtocol);
    hello.set_name(name);
    for (const api::ModelInfo& model : models) ToWire(model, hello.add_models());
    hello.set_places(64);
    hello.set_max_num_seqs(4);
    auto worker = pool_.Attach(hello, std::make_shared<NoConnection>());
    EXPECT_TRUE(worker.ok()) << worker.status();
    if (!worker.ok()) return nullptr;
    workers_[name] = *worker;
    Beat(name, models, budget);
    return *worker;
  }
  void Beat(const std::string& name, const Models& models, int64_t budget = 100) {
    v1::WorkerMessage message;
    message.mutable_beat()->set_memory_budget(budget);
    for (const api::ModelInfo& model : models) {
      v1::WireModelState* const state = message.mutable_beat()->add_models();
      state->set_id(model.id);
      ToWire(model.status, state->mutable_status());
    }
    pool_.Receive(workers_[name], message);
  }
  void Relist(const std::string& name, const Models& models) {
    v1::WorkerMessage message;
    message.mutable_models();
    message.mutable_beat()->set_memory_budget(100);
    for (const api::ModelInfo& model : models)
      ToWire(model, message.mutable_models()->add_models());
    pool_.Receive(workers_[name], message);
  }
  void TearDown() override {
    for (const auto& [name, worker] : workers_) pool_.Lost(worker);
  }
  Result<api::Generation> Ask(const std::string& model) {
    api::GenerateRequest request;
    request.model = model;
    request.prompt = api::TextPrompt{"x"};
    return pool_.Generate(std::move(request), nullptr);
  }
  // Calls that were sent to the worker since the last look.
  std::vector<v1::Call> Sent(const std::string& name) {
    v1::FrontendMessage message;
    (void)pool_.TakeMessage(workers_[name], &message);
    return {message.calls().begin(), message.calls().end()};
  }
  void End(const std::string& name, uint64_t id, const Status& status = OkStatus()) {
    v1::WorkerMessage message;
    v1::Update* const update = message.add_updates();
    update->set_id(id);
    ToWire(status, update->mutable_ended());
    pool_.Receive(workers_[name], message);
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> names;
    for (const api::ModelInfo& model : pool_.Models())
      names.push_back(model.id + " " + std::string(api::ModelStateName(model.status.state)));
    return names;
  }
  using Names = std::vector<std::string>;

  SteadyClock clock_;
  std::atomic<api::LoadLevel> level_{api::LoadLevel::kGreen};
  WorkerPool pool_{clock_, level_, nullptr};
  std::map<std::string, WorkerPool::WorkerRef> workers_;
};

TEST_F(ModelsOfWorkers, ListsEachModelOnceInItsBestState) {
  Add("a", {Model("x"), Model("y", kLoaded)});
  Add("b", {Model("x", kLoading), Model("z", kFailed)});
  EXPECT_EQ(Listed(), (Names{"y loaded", "x loading", "z failed"}));
  const WorkerPool::Figures figures = pool_.figures();
  EXPECT_EQ(figures.models, (std::array<int, 5>{0, 1, 1, 0, 1}));
  EXPECT_EQ(figures.memory_bytes, 80);
  EXPECT_EQ(figures.memory_budget_bytes, 200);
  Beat("b", {Model("x", kLoaded)});
  EXPECT_EQ(Listed(), (Names{"x loaded", "y loaded", "z failed"}));
}

TEST_F(ModelsOfWorkers, ARequestGoesToTheWorkerThatHasItsModel) {
  Add("a", {Model("x"), Model("y", kLoaded)});
  Add("b", {Model("x", kLoaded), Model("y")});
  for (int i = 0; i < 3; ++i) {
    const auto x = Ask("x"), y = Ask("y");
    ASSERT_TRUE(x.ok() && y.ok());
    EXPECT_EQ(Sent("a").at(0).generate().place().model(), "y");
    EXPECT_EQ(Sent("b").at(0).generate().place().model(), "x");
  }
  EXPECT_EQ(Ask("none").status().reason(), "model_not_found");
}

// Regression: until the worker's next heartbeat, further requests went to other workers, which all
// loaded the model.
TEST_F(ModelsOfWorkers, RequestsThatFollowWaitAtTheSameWorker) {
  Add("a", {Model("x"), Model("y")});
  Add("b", {Model("x"), Model("y")});
  std::vector<api::Generation> held;
  for (int i = 0; i < 3; ++i) held.push_back(*Ask("x"));
  const size_t at_a = Sent("a").size(), at_b = Sent("b").size();
  EXPECT_TRUE((at_a == 3 && at_b == 0) || (at_a == 0 && at_b == 3)) << at_a << " " << at_b;
  held.push_back(*Ask("y"));
  EXPECT_EQ(Sent(at_a == 3 ? "b" : "a").size(), 1u) << "the idle worker";
}

TEST_F(ModelsOfWorkers, AModelIsLoadedWhereMemoryIsFree) {
  Add("a", {Model("x", kLoaded), Model("y", kLoaded), Model("z")});
  Add("b", {Model("x", kLoaded), Model("z")});
  std::vector<api::Generation> held;
  for (int i = 0; i < 4; ++i) held.push_back(*Ask("x"));
  for (const auto& call : Sent("b")) EXPECT_EQ(call.generate().place().model(), "x");
  held.push_back(*Ask("z"));
  EXPECT_EQ(Sent("b").at(0).generate().place().model(), "z");
}

TEST_F(ModelsOfWorkers, FilesThatDifferAreRefusedUntilTheOtherGoes) {
  Add("a", {Model("x", kLoaded, "one")});
  Add("b", {Model("x", kUnloaded, ""), Model("y")});
  EXPECT_EQ(Listed(), (Names{"x loaded", "y unloaded"}));
  Relist("b", {Model("x", kLoaded, "two"), Model("y")});
  const auto first = Ask("x"), second = Ask("x");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Sent("a").size(), 2u);
  EXPECT_TRUE(Sent("b").empty());
  pool_.Lost(workers_["a"]);
  workers_.erase("a");
  EXPECT_EQ(Listed(), (Names{"x loaded", "y unloaded"}));
  const auto third = Ask("x");
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(Sent("b").empty());
}

TEST_F(ModelsOfWorkers, AModelWhoseFilesAreUnreadIsAskedFor) {
  api::ModelInfo unread;
  unread.id = "x";
  unread.status = {.state = kUnloaded, .pinned = false};
  Add("a", {unread});
  EXPECT_TRUE(Ask("x").ok());
  EXPECT_EQ(Sent("a").size(), 1u);
}

TEST_F(ModelsOfWorkers, AListThatShrinksIsNoError) {
  Add("a", {Model("x", kLoaded), Model("y")});
  const auto running = Ask("x");
  ASSERT_TRUE(running.ok());
  Relist("a", {});
  EXPECT_TRUE(Listed().empty());
  EXPECT_EQ(Ask("x").status().reason(), "model_loading") << "it may come back";
  pool_.Lost(workers_["a"]);
  workers_.erase("a");
  EXPECT_EQ(running->stream().status().reason(), "worker_lost");
}

TEST_F(ModelsOfWorkers, AnAnswerContinuesWhereTheModelIsNotLoadedYet) {
  Add("a", {Model("x", kLoaded)});
  Add("b", {Model("x")});
  const auto running = Ask("x");
  ASSERT_TRUE(running.ok());
  EXPECT_EQ(Sent("a").size(), 1u);
  pool_.Lost(workers_["a"]);
  workers_.erase("a");
  EXPECT_EQ(Sent("b").size(), 1u);
  EXPECT_FALSE(running->stream().ended());
}

TEST_F(ModelsOfWorkers, ALoadGoesToOneWorkerAndItsErrorComesBack) {
  Add("a", {Model("x")}, 30);
  Add("b", {Model("x")});
  std::optional<Status> ended;
  pool_.Load("x", [&](Status status) { ended = std::move(status); });
  EXPECT_TRUE(Sent("a").empty()) << "it never fits there";
  const std::vector<v1::Call> calls = Sent("b");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].load(), "x");
  EXPECT_FALSE(ended.has_value());
  End("b", calls[0].id(), Status(StatusCode::kFailedPrecondition, "model_too_large", "no room"));
  EXPECT_EQ(ended->reason(), "model_too_large");
  pool_.Load("none", [&](Status status) { ended = std::move(status); });
  EXPECT_EQ(ended->reason(), "model_not_found");
}

// Regression: abandoned loads of one model took the places of all questions.
TEST_F(ModelsOfWorkers, LoadsOfAModelAreOneQuestion) {
  Add("a", {Model("x"), Model("y", kLoaded)});
  std::vector<std::string> ended;
  for (size_t i = 0; i < WorkerPool::kMaxLoads + 2; ++i)
    pool_.Load(
        "x", [&](const Status& status) { ended.push_back(status.ok() ? "ok" : status.reason()); });
  EXPECT_EQ(ended, (std::vector<std::string>(2, "queue_full")));
  const std::vector<v1::Call> calls = Sent("a");
  ASSERT_EQ(calls.size(), 1u);
  bool answered = false;
  pool_.DetokenizeLater({.model = "y", .tokens = {1}},
                        [&](const Result<std::string>& text) { answered = text.ok(); });
  const std::vector<v1::Call> questions = Sent("a");
  ASSERT_EQ(questions.size(), 1u);
  End("a", questions[0].id());
  EXPECT_TRUE(answered);
  End("a", calls[0].id());
  EXPECT_EQ(ended.size(), WorkerPool::kMaxLoads + 2);
  EXPECT_EQ(ended.back(), "ok");
  pool_.Load("x", [&](const Status&) {});
  EXPECT_EQ(Sent("a").size(), 1u) << "the next load asks again";
}

TEST_F(ModelsOfWorkers, QuestionsThatWaitForALoadLeavePlaces) {
  Add("a", {Model("x"), Model("y", kLoaded)});
  int refused = 0;
  const auto ask = [&](const std::string& model) {
    pool_.DetokenizeLater({.model = model, .tokens = {1}},
                          [&](const Result<std::string>& text) { refused += text.ok() ? 0 : 1; });
  };
  for (size_t i = 0; i < WorkerPool::kMaxQuestions; ++i) ask("x");
  EXPECT_EQ(refused, static_cast<int>(WorkerPool::kMaxLoadingQuestions));
  ask("y");
  EXPECT_EQ(refused, static_cast<int>(WorkerPool::kMaxLoadingQuestions));
  const std::vector<v1::Call> calls = Sent("a");
  ASSERT_EQ(calls.size(), WorkerPool::kMaxLoadingQuestions + 1);
  End("a", calls.front().id());
  ask("x");
  EXPECT_EQ(Sent("a").size(), 1u) << "a place is free again";
}

TEST_F(ModelsOfWorkers, AnUnloadReachesEveryWorkerThatHasTheModel) {
  Add("a", {Model("x", kLoaded)});
  Add("b", {Model("x", kLoading)});
  Add("c", {Model("x"), Model("y")});
  std::optional<Status> ended;
  pool_.Unload("x", [&](Status status) { ended = std::move(status); });
  const std::vector<v1::Call> at_a = Sent("a"), at_b = Sent("b");
  ASSERT_TRUE(at_a.size() == 1 && at_b.size() == 1);
  EXPECT_TRUE(Sent("c").empty());
  EXPECT_EQ(at_a[0].unload(), "x");
  End("a", at_a[0].id());
  EXPECT_FALSE(ended.has_value());
  pool_.Lost(workers_["b"]);
  workers_.erase("b");
  ASSERT_TRUE(ended.has_value()) << "a lost worker has unloaded all";
  EXPECT_TRUE(ended->ok()) << *ended;
  ended.reset();
  pool_.Unload("y", [&](Status status) { ended = std::move(status); });
  EXPECT_TRUE(ended.has_value() && ended->ok()) << "it is unloaded";
  pool_.Unload("none", [&](Status status) { ended = std::move(status); });
  EXPECT_EQ(ended->reason(), "model_not_found");
}

TEST_F(ModelsOfWorkers, KeepAliveAndRescanReachTheWorkers) {
  Add("a", {Model("x", kLoaded)});
  Add("b", {Model("x")});
  pool_.KeepAlive("x", std::chrono::seconds(7));
  const std::vector<v1::Call> calls = Sent("a");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].keep_alive().model(), "x");
  EXPECT_EQ(Duration(calls[0].keep_alive().keep_alive()), std::chrono::seconds(7));
  EXPECT_TRUE(Sent("b").empty());
  pool_.Rescan();
  EXPECT_TRUE(Sent("a").at(0).rescan() && Sent("b").at(0).rescan());
}

TEST_F(ModelsOfWorkers, QuestionsWaitForALoadAndThreadsDoNot) {
  Add("a", {Model("x")});
  std::optional<Status> ended;
  pool_.DetokenizeLater({.model = "x", .tokens = {1}, .patience = Duration::zero()},
                        [&](Result<std::string> text) { ended = text.status(); });
  pool_.Look();
  EXPECT_FALSE(ended.has_value());
  EXPECT_EQ(pool_.Detokenize({.model = "x", .tokens = {1}, .patience = Duration::zero()})
                .status()
                .reason(),
            "overloaded");
  Beat("a", {Model("x", kLoaded)});
  std::optional<Status> at_once;
  pool_.DetokenizeLater({.model = "x", .tokens = {1}, .patience = Duration::zero()},
                        [&](Result<std::string> text) { at_once = text.status(); });
  pool_.Look();
  EXPECT_EQ(at_once->reason(), "overloaded") << "it is loaded";
  End("a", Sent("a").at(0).id());
  EXPECT_TRUE(ended.has_value());
}

TEST_F(ModelsOfWorkers, ADrainDoesNotWaitForLoads) {
  Add("a", {Model("x")});
  std::optional<Status> ended;
  pool_.Load("x", [&](Status status) { ended = std::move(status); });
  EXPECT_TRUE(pool_.Drain(std::chrono::seconds(10)));
  EXPECT_EQ(ended->reason(), "draining");
}

TEST_F(ModelsOfWorkers, FiguresOfAnySizeAreNoOverflow) {
  api::ModelInfo huge = Model("x", kLoaded), more = Model("y", kLoading), third = Model("z");
  huge.status.memory_bytes = more.status.memory_bytes = third.status.memory_bytes = INT64_MAX;
  Add("a", {huge, more, third}, INT64_MAX);
  Add("b", {huge, more, third}, -5);
  EXPECT_EQ(pool_.figures().memory_bytes, INT64_MAX / 4);
  EXPECT_TRUE(Ask("z").ok());
}

}  // namespace
}  // namespace tutti::cluster
