// Row N51 on the timing device: ten minutes of an open loop at multiples of what the device can
// do. What is offered beyond that is refused at once, and costs those that are admitted nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::Percentile;
using testing::TestPrompt;
using testing::TestRequest;
using testing::TimingModel;

constexpr Duration kLoad = minutes(10);
// 16 places wait for 8 sequences, that is for two rounds of the 1.1 s that a request takes here.
constexpr int kQueue = 16;
constexpr Duration kTtftTarget = milliseconds(2500);

// Outcomes of the requests of one load.
struct RunOutcome {
  int offered = 0, answered = 0, refused = 0, failed = 0;
  std::vector<Duration> ttft;  // from when a request was due
  double rate() const { return answered / ToSeconds(kLoad); }
};

class Overload : public ::testing::Test {
 protected:
  Overload() : h_(Options(), Model(), Timing()) {}

  static EngineOptions Options() {
    EngineOptions options;
    options.queue.requests = kQueue;
    return options;
  }
  static FakeModelOptions Model() {
    FakeModelOptions model;
    model.limits.kv_blocks = 32;  // of which eight sequences need 24 at most
    return model;
  }
  static TimingModel Timing() {
    return {.base = milliseconds(45),
            .per_decode_row = milliseconds(1),
            .per_prefill_token = std::chrono::microseconds(100)};
  }

  Result<size_t> Send(TimePoint due) {
    ++sent_;
    Request request = TestRequest(TestPrompt(sent_, 20 + sent_ % 40), 20);
    const Result<size_t> number = h_.Submit(std::move(request));
    if (number.ok()) h_.client(*number).sent = due;
    return number;
  }

  void Collect(RunOutcome& outcome) {
    for (const auto& client : h_.TakeDone()) {
      if (!client->status().ok()) {
        ++outcome.failed;
        continue;
      }
      ++outcome.answered;
      outcome.ttft.push_back(client->first_token());
    }
    const api::LoadSnapshot load = h_.engine().Load();
    EXPECT_LE(load.running + load.waiting, 8 + kQueue);
  }

  // So many requests are always under way.
  RunOutcome ClosedLoop(int clients) {
    RunOutcome outcome;
    const TimePoint end = h_.clock().Now() + kLoad;
    while (h_.clock().Now() < end) {
      while (h_.size() < static_cast<size_t>(clients)) {
        ++outcome.offered;
        EXPECT_TRUE(Send(h_.clock().Now()).ok());
      }
      EXPECT_TRUE(h_.RunOnce());
      Collect(outcome);
    }
    RunOutcome rest;  // what ends later does not count
    Finish(rest);
    return outcome;
  }

  // Requests of a Poisson process; a step's are asked for when it has ended.
  RunOutcome OpenLoop(double rate) {
    RunOutcome outcome;
    Random random(7);
    const TimePoint begin = h_.clock().Now(), end = begin + kLoad;
    TimePoint due = begin;
    const auto next = [&] { due += FromSeconds(-std::log1p(-random.Uniform()) / rate); };
    next();
    while (due < end) {
      if (h_.size() == 0) h_.clock().Advance(std::max(due - h_.clock().Now(), Duration(0)));
      if (due > h_.clock().Now()) {
        EXPECT_TRUE(h_.RunOnce());
      }
      Collect(outcome);
      for (; due < end && due <= h_.clock().Now(); next()) {
        ++outcome.offered;
        const Status refused = Send(due).status();
        if (refused.ok()) continue;
        ++outcome.refused;
        EXPECT_EQ(refused.reason(), "queue_full");
        EXPECT_TRUE(refused.retry_after().has_value());
      }
    }
    load_end_ = h_.clock().Now();
    const int in_time = outcome.answered;
    Finish(outcome);
    EXPECT_EQ(outcome.answered + outcome.refused + outcome.failed, outcome.offered);
    outcome.answered = in_time;
    return outcome;
  }

  void Finish(RunOutcome& outcome) {
    EXPECT_TRUE(h_.RunToEnd());
    Collect(outcome);
  }

  // Time to the first token of single requests, one after the other.
  Duration Single() {
    RunOutcome outcome;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(Send(h_.clock().Now()).ok());
      Finish(outcome);
    }
    return Percentile(outcome.ttft, 0.5);
  }

  EngineHarness h_;
  int sent_ = 0;
  TimePoint load_end_{};
};

TEST_F(Overload, TenMinutesBeyondThePeakServeAsManyAsThePeakAndNobodyLate) {
  const Duration idle = Single();
  const double peak = ClosedLoop(8 + kQueue).rate();
  ASSERT_GT(peak, 5);
  for (const double factor : {1.2, 3.0, 10.0}) {
    const RunOutcome outcome = OpenLoop(factor * peak);
    EXPECT_NEAR(outcome.offered, factor * peak * ToSeconds(kLoad), 0.05 * outcome.offered);
    EXPECT_GE(outcome.rate(), 0.99 * peak) << factor << ": a refusal costs the device nothing";
    EXPECT_EQ(outcome.failed, 0) << factor;
    EXPECT_GT(outcome.refused, 0.5 * (factor - 1) * peak * ToSeconds(kLoad)) << factor;
    EXPECT_LE(*std::max_element(outcome.ttft.begin(), outcome.ttft.end()), kTtftTarget) << factor;
    // Admitted requests end soon, nothing of the load is left, and the next request is served as
    // usual.
    EXPECT_LE(h_.clock().Now() - load_end_, seconds(10)) << factor;
    EXPECT_EQ(h_.engine().Load().kv_blocks_used, 0) << factor;
    EXPECT_EQ(h_.engine().decoder_for_test().admission()->queued_bytes.load(), 0) << factor;
    EXPECT_LE(ToSeconds(Single()), 1.1 * ToSeconds(idle)) << factor;
  }
  EXPECT_THAT(h_.runner().violations(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tutti::engine
