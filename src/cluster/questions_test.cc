// Tokenizer questions to workers that answer, die, drain or are silent, without sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/inference_codec.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct SilentWay final : WorkerPool::Connection {
  void Wake() override {}
  void Close() override {}
};

class QuestionsTest : public ::testing::Test {
 protected:
  static v1::Hello HelloOf(const std::string& name, const std::string& model) {
    v1::Hello hello;
    hello.set_protocol(kProtocol);
    hello.set_name(name);
    api::ModelInfo info;
    info.id = model;
    info.aliases = {model + "-alias"};
    ToWire(info, hello.add_models());
    hello.set_places(1);
    return hello;
  }
  WorkerPool::WorkerRef Add(const std::string& name, const std::string& model = "m") {
    auto worker = pool_.Attach(HelloOf(name, model), std::make_shared<SilentWay>());
    EXPECT_TRUE(worker.ok()) << worker.status();
    workers_.push_back(*worker);
    return *worker;
  }
  void TearDown() override {
    for (const auto& worker : workers_) pool_.Lost(worker);
  }
  // The answer of one question; empty until it arrives.
  using Answer = std::shared_ptr<std::optional<Result<std::string>>>;
  Answer Ask(const std::string& model = "m") {
    auto answer = std::make_shared<std::optional<Result<std::string>>>();
    pool_.DetokenizeLater({.model = model, .tokens = {1}}, [answer](Result<std::string> text) {
      EXPECT_FALSE(answer->has_value()) << "once";
      *answer = std::move(text);
    });
    return answer;
  }
  static std::string ReasonOf(const Answer& answer) {
    return answer->has_value() ? (*answer)->status().reason() : "none";
  }
  // The ids of what the worker has been sent now.
  std::vector<uint64_t> Sent(const WorkerPool::WorkerRef& worker) {
    v1::FrontendMessage message;
    std::vector<uint64_t> ids;
    if (pool_.TakeMessage(worker, &message)) {
      for (const v1::Call& call : message.calls()) ids.push_back(call.id());
    }
    return ids;
  }
  void Reply(const WorkerPool::WorkerRef& worker, uint64_t id, const std::string& text) {
    v1::WorkerMessage message;
    v1::Update* update = message.add_updates();
    update->set_id(id);
    update->set_text(text);
    ToWire(OkStatus(), update->mutable_ended());
    pool_.Receive(worker, message);
  }
  void Beat(const WorkerPool::WorkerRef& worker, bool draining = false, bool live = true) {
    v1::WorkerMessage message;
    message.mutable_beat()->set_draining(draining);
    if (!live)
      ToWire(Unavailable("engine_stalled", "it hangs"), message.mutable_beat()->mutable_live());
    pool_.Receive(worker, message);
  }

  ManualClock clock_;
  std::atomic<api::LoadLevel> level_{api::LoadLevel::kGreen};
  WorkerPool pool_{clock_, level_, nullptr};
  std::vector<WorkerPool::WorkerRef> workers_;
};

TEST_F(QuestionsTest, NobodyWaitsAndAnswersComeInWhateverOrder) {
  const auto worker = Add("a");
  const Answer one = Ask(), two = Ask("m-alias"), of_default = Ask("");
  const std::vector<uint64_t> ids = Sent(worker);
  ASSERT_EQ(ids.size(), 3u) << "more than the worker takes of requests";
  EXPECT_FALSE(one->has_value() || two->has_value());
  EXPECT_TRUE(pool_.wants_look_soon());
  Reply(worker, ids[1], "two");
  EXPECT_EQ(***two, "two");
  EXPECT_FALSE(one->has_value());
  Reply(worker, ids[0], "one");
  Reply(worker, ids[2], "three");
  Reply(worker, ids[0], "again");
  EXPECT_EQ(***one, "one");
  EXPECT_EQ(***of_default, "three");
  EXPECT_FALSE(pool_.wants_look_soon());
  EXPECT_EQ(ReasonOf(Ask("none")), "model_not_found");
}

// Regression: a client of /tokenize got worker_lost although another worker was available.
TEST_F(QuestionsTest, WhatALostWorkerWasAskedAnotherIsAskedOnce) {
  const auto first = Add("a");
  const Answer answer = Ask();
  EXPECT_EQ(Sent(first).size(), 1u);
  const auto second = Add("b");
  pool_.Lost(first);
  EXPECT_FALSE(answer->has_value());
  const std::vector<uint64_t> ids = Sent(second);
  ASSERT_EQ(ids.size(), 1u);
  Reply(second, ids[0], "text");
  EXPECT_EQ(***answer, "text");
  // The question itself may kill the workers.
  const Answer killing = Ask();
  const auto third = Add("c"), fourth = Add("d");
  pool_.Lost(second);
  const bool with_third = !Sent(third).empty();
  pool_.Lost(with_third ? third : fourth);
  EXPECT_EQ(ReasonOf(killing), "worker_lost");
  EXPECT_TRUE(Sent(with_third ? fourth : third).empty());
}

TEST_F(QuestionsTest, TheLastOnesWorkerThatIsLostEndsIt) {
  const auto worker = Add("a");
  const Answer answer = Ask();
  pool_.Lost(worker);
  EXPECT_EQ(ReasonOf(answer), "worker_lost");
  EXPECT_EQ(ReasonOf(Ask()), "model_loading");
}

TEST_F(QuestionsTest, OneThatWorksAndStaysIsAskedFirst) {
  const auto draining = Add("a"), stalled = Add("b"), well = Add("c");
  Beat(draining, true);
  Beat(stalled, false, false);
  Beat(well);
  for (int i = 0; i < 6; ++i) Ask();
  EXPECT_EQ(Sent(well).size(), 6u);
  pool_.Lost(well);  // their questions move to the remaining workers
  EXPECT_EQ(Sent(draining).size(), 3u);
  EXPECT_EQ(Sent(stalled).size(), 3u);
}

TEST_F(QuestionsTest, SeveralShareThem) {
  const auto first = Add("a"), second = Add("b");
  for (int i = 0; i < 6; ++i) Ask();
  EXPECT_EQ(Sent(first).size(), 3u);
  EXPECT_EQ(Sent(second).size(), 3u);
}

TEST_F(QuestionsTest, WithoutAnAnswerInTimeItEndsAndIsNotSentAnyMore) {
  const auto worker = Add("a");
  const Answer sent = Ask();
  Sent(worker);
  const Answer unsent = Ask();
  clock_.Advance(api::kQuestionPatience - milliseconds(1));
  pool_.Look();
  EXPECT_FALSE(sent->has_value());
  clock_.Advance(milliseconds(1));
  pool_.Look();
  EXPECT_EQ(ReasonOf(sent), "overloaded");
  EXPECT_EQ(ReasonOf(unsent), "overloaded");
  EXPECT_TRUE(Sent(worker).empty());
  EXPECT_FALSE(pool_.wants_look_soon());
}

// The strand of dialogs waited for a stopped worker for two seconds at each of its turns.
TEST_F(QuestionsTest, AWorkerThatSaysNothingIsNotAskedAgainUntilItSpeaks) {
  const auto silent = Add("a"), speaks = Add("b");
  clock_.Advance(WorkerPool::kUnheard + milliseconds(1));
  Beat(speaks);
  Ask();
  Ask();
  EXPECT_EQ(Sent(speaks).size(), 2u);
  pool_.Lost(speaks);
  EXPECT_TRUE(Sent(silent).empty()) << "not even in its place";
  EXPECT_EQ(ReasonOf(Ask()), "overloaded") << "at once";
  Beat(silent);
  EXPECT_EQ(ReasonOf(Ask()), "none");
  EXPECT_EQ(Sent(silent).size(), 1u);
}

TEST_F(QuestionsTest, TheyAreBoundedInNumberAndBytes) {
  const auto worker = Add("a");
  std::vector<Answer> answers;
  for (size_t i = 0; i < WorkerPool::kMaxQuestions; ++i) answers.push_back(Ask());
  EXPECT_EQ(ReasonOf(answers.back()), "none");
  EXPECT_EQ(ReasonOf(Ask()), "overloaded");
  Reply(worker, Sent(worker).front(), "x");
  EXPECT_EQ(ReasonOf(Ask()), "none");
  clock_.Advance(api::kQuestionPatience);
  pool_.Look();
  Beat(worker);
  const std::string most(WorkerPool::kMaxQuestionBytes, 'x');
  std::vector<std::string> reasons;
  for (int i = 0; i < 2; ++i) {
    pool_.TokenizeLater({.model = "m", .prompt = api::TextPrompt{most}},
                        [&](const auto& told) { reasons.push_back(told.status().reason()); });
  }
  EXPECT_EQ(reasons, std::vector<std::string>{"overloaded"}) << "the first is under way";
  clock_.Advance(api::kQuestionPatience);
  pool_.Look();
}

TEST_F(QuestionsTest, WhoWaitsDoesSoAsLongAsHeHasPatience) {
  SteadyClock clock;
  WorkerPool pool(clock, level_, nullptr);
  const auto worker = pool.Attach(HelloOf("a", "m"), std::make_shared<SilentWay>());
  ASSERT_TRUE(worker.ok());
  const auto begin = std::chrono::steady_clock::now();
  const auto told =
      pool.Tokenize({.model = "m", .prompt = api::TextPrompt{"x"}, .patience = milliseconds(100)});
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(told.status().reason(), "overloaded");
  EXPECT_GE(took, milliseconds(100));
  EXPECT_LT(took, seconds(2));
  pool.Lost(*worker);
}

TEST_F(QuestionsTest, AModelThatIsLongGoneIsNotFoundAndBeforeThatWaitedFor) {
  const auto stays = Add("a", "stays"), goes = Add("b", "goes");
  pool_.Lost(goes);
  clock_.Advance(KnownModels::kRemembered - seconds(1));
  Beat(stays);
  EXPECT_EQ(ReasonOf(Ask("goes")), "model_loading");
  EXPECT_EQ(ReasonOf(Ask("goes-alias")), "model_loading");
  clock_.Advance(seconds(1));
  Beat(stays);
  EXPECT_EQ(ReasonOf(Ask("goes")), "model_not_found");
  EXPECT_EQ(ReasonOf(Ask("stays")), "none");
}

}  // namespace
}  // namespace tutti::cluster
