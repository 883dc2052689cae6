// Row U23: more requests are in preparation than run at once. The real gateway and scheduler on the
// timing device, with steps of 100 ms and preparation times set by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/testing/timed_model.h"
#include "gateway/gateway.h"

namespace tutti::app {
namespace {

using std::chrono::milliseconds;

constexpr Duration kStep = milliseconds(100);
constexpr int kTokens = 35, kMaxNumSeqs = 8, kPrepared = 12, kMore = 13;

// A clock whose Now() blocks while the clock is held; the gateway calls it when it prepares a
// request.
class HeldClock final : public Clock {
 public:
  TimePoint Now() const override {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    --inside_;
    return TimePoint(milliseconds(1000));
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  bool Inside(int wanted) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [this, wanted] { return inside_ == wanted; });
  }
  int inside() const {
    const std::lock_guard lock(mutex_);
    return inside_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int inside_ = 0;
  bool held_ = false;
};

struct PrepSize {
  int in_flight, threads;
};

class PreparationTest : public ::testing::TestWithParam<PrepSize> {
 protected:
  PreparationTest() { gateway_.AddModel(model_.served); }
  ~PreparationTest() override { held_.Hold(false); }

  void Ask() {
    api::GenerateRequest request;
    request.prompt = api::TextPrompt{.text = "tell me " + std::to_string(asked_.size())};
    request.sampling.max_tokens = kTokens;
    request.sampling.ignore_eos = true;
    Result<api::Generation> generation = gateway_.Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status();
    asked_.push_back(*std::move(generation));
  }
  void AllPrepared() {
    for (int i = 0; i < 60'000 && gateway_.preparing() > 0; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    ASSERT_EQ(gateway_.preparing(), 0);
  }
  int Ended() const {
    int ended = 0;
    for (const api::Generation& each : asked_) ended += each.stream().ended() ? 1 : 0;
    return ended;
  }

  ManualClock clock_;
  std::vector<size_t> rows_;  // sequences of each step
  testing::TimedModel model_{
      "timed", testing::TimedLimits(1024, 64), {}, clock_, [this](const engine::StepPlan& plan) {
        rows_.push_back(plan.slices.size());
        clock_.Advance(kStep);
        return kStep;
      }};
  HeldClock held_;
  gateway::Gateway gateway_{
      {.prep = GetParam().in_flight, .prep_threads = GetParam().threads, .inline_prompt_bytes = 0},
      held_};
  std::vector<api::Generation> asked_;
};

TEST_P(PreparationTest, TheLanesStayFullBesideRequestsInPreparation) {
  for (int i = 0; i < kMaxNumSeqs; ++i) Ask();
  AllPrepared();
  held_.Hold(true);
  for (int i = 0; i < kMore; ++i) Ask();
  // The allowed number of requests is in preparation and the rest wait; none of them runs.
  const int at_work = std::min(GetParam().in_flight, GetParam().threads);
  ASSERT_TRUE(held_.Inside(at_work));
  EXPECT_EQ(gateway_.preparing(), kMore);
  EXPECT_EQ(gateway_.Load().waiting, kMaxNumSeqs + kMore) << "all have their place in the queue";
  const TimePoint begin = clock_.Now();
  while (Ended() < kMaxNumSeqs) {
    ASSERT_TRUE(model_.engine->RunOneStep());
    ASSERT_EQ(rows_.back(), static_cast<size_t>(kMaxNumSeqs)) << "in step " << rows_.size();
  }
  EXPECT_EQ(clock_.Now() - begin, kStep * kTokens) << "as if nothing else were there";
  EXPECT_EQ(held_.inside(), at_work);
  EXPECT_EQ(gateway_.preparing(), kMore);
  // Prepared requests fill the very next step, and so on.
  held_.Hold(false);
  AllPrepared();
  while (model_.engine->RunOneStep()) {
  }
  EXPECT_EQ(Ended(), kMaxNumSeqs + kMore);
  EXPECT_EQ(clock_.Now() - begin, kStep * kTokens * 3);
  for (int step = 0; step < 3 * kTokens; ++step) {
    EXPECT_EQ(rows_[static_cast<size_t>(step)],
              static_cast<size_t>(step < 2 * kTokens ? kMaxNumSeqs : kMore - kMaxNumSeqs))
        << "step " << step;
  }
  EXPECT_THAT(model_.runner.violations(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(, PreparationTest,
                         ::testing::Values(PrepSize{1, 1}, PrepSize{kPrepared, 1},
                                           PrepSize{kPrepared, 2}, PrepSize{kPrepared, kPrepared}),
                         [](const auto& each) {
                           return std::to_string(each.param.in_flight) + "By" +
                                  std::to_string(each.param.threads);
                         });

// Short prompts are prepared on the servers' threads, and count against the same bound.
TEST(Preparation, WhoFindsTwelveAtItHandsItsOwnOnAndGoesOn) {
  ManualClock clock;
  testing::TimedModel model("timed", testing::TimedLimits(1024, 64), {}, clock,
                            [](const engine::StepPlan&) { return kStep; });
  HeldClock held;
  gateway::Gateway gateway({.prep = kPrepared, .prep_threads = 2}, held);
  gateway.AddModel(model.served);
  std::atomic<int> accepted{0};
  std::vector<api::Generation> kept(2 * kPrepared);
  const auto ask = [&](size_t i) {
    api::GenerateRequest request;
    request.prompt = api::TextPrompt{.text = "hello " + std::to_string(i)};
    request.sampling.max_tokens = 2;
    Result<api::Generation> generation = gateway.Generate(std::move(request), nullptr);
    ASSERT_TRUE(generation.ok()) << generation.status();
    kept[i] = *std::move(generation);
    ++accepted;
  };
  held.Hold(true);
  std::vector<std::jthread> servers;
  for (size_t i = 0; i < kPrepared; ++i) servers.emplace_back(ask, i);
  ASSERT_TRUE(held.Inside(kPrepared));
  for (size_t i = kPrepared; i < 2 * kPrepared; ++i) ask(i);  // this thread does not block
  EXPECT_EQ(accepted.load(), kPrepared);
  EXPECT_EQ(held.inside(), kPrepared) << "never more";
  EXPECT_EQ(gateway.preparing(), 2 * kPrepared);
  held.Hold(false);
  for (std::jthread& server : servers) server.join();
  for (int i = 0; i < 60'000 && gateway.preparing() > 0; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  while (model.engine->RunOneStep()) {
  }
  for (const api::Generation& each : kept) EXPECT_TRUE(each.stream().ended());
}

}  // namespace
}  // namespace tutti::app
