// The device loop over slots, its thread, and what other threads see of it.
#include "engine/device_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "engine/decoder_instance.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeModelRunner;
using testing::FakeTokenText;
using testing::TestPrompt;
using testing::TestRequest;

TEST(ShareDevice, PicksTheReadySlotWithTheLeastTimePerWeight) {
  std::vector<InstanceView> slots(3);
  EXPECT_EQ(ShareDevice(slots), -1);
  slots[0] = {true, 1, milliseconds(10)};
  slots[1] = {true, 4, milliseconds(30)};
  slots[2] = {false, 1, milliseconds(0)};
  EXPECT_EQ(ShareDevice(slots), 1);
  slots[1].used = milliseconds(50);
  EXPECT_EQ(ShareDevice(slots), 0);
  // Idleness earns no credit.
  EXPECT_EQ(LiftedUse(slots[2], TimePerWeight(slots[0])), milliseconds(10));
  EXPECT_EQ(LiftedUse(slots[0], TimePerWeight(slots[1])),
            milliseconds(12) + std::chrono::microseconds(500));
  EXPECT_EQ(LiftedUse(slots[1], TimePerWeight(slots[0])), milliseconds(50));
}

class FakeInstance final : public Slot {
 public:
  FakeInstance(ManualClock* clock, Duration step, double weight, std::string* trace, char name)
      : clock_(*clock), step_(step), weight_(weight), trace_(*trace), name_(name) {}
  InstanceReadiness Prepare(TimePoint now) override {
    return {work > 0 && now >= from, work > 0 ? from : TimePoint::max()};
  }
  bool Step() override {
    --work;
    clock_.Advance(step_);
    used += step_;
    trace_ += name_;
    return true;
  }
  double weight() const override { return weight_; }
  int work = 0;
  TimePoint from{};
  Duration used{0};

 private:
  ManualClock& clock_;
  const Duration step_;
  const double weight_;
  std::string& trace_;
  const char name_;
};

TEST(DeviceLoop, TwoSlotsShareTheDeviceByTimeAndWeight) {
  ManualClock clock;
  std::string trace;
  FakeInstance slow(&clock, milliseconds(30), 1, &trace, 's'),
      quick(&clock, milliseconds(10), 2, &trace, 'q');
  DeviceLoop loop(&clock);
  loop.Add(&slow);
  loop.Add(&quick);
  slow.work = quick.work = 1000;
  for (int i = 0; i < 700; ++i) ASSERT_TRUE(loop.RunOnce());
  EXPECT_NEAR(ToMillis(quick.used) / ToMillis(slow.used), 2.0, 0.05);
  EXPECT_EQ(trace.find("ss"), std::string::npos);  // never two slow steps while the quick one waits
  // The slow one alone for a while; when the quick one comes back it gets its share, not all it
  // missed.
  quick.work = 0;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(loop.RunOnce());
  trace.clear();
  quick.work = 1000;
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(loop.RunOnce());
  EXPECT_NEAR(static_cast<double>(std::count(trace.begin(), trace.end(), 's')), 10, 2);
  loop.Remove(&slow);
  trace.clear();
  ASSERT_TRUE(loop.RunOnce());
  EXPECT_EQ(trace, "q");
  // An idle loop knows when to look again.
  quick.work = 1;
  quick.from = clock.Now() + seconds(3);
  EXPECT_FALSE(loop.RunOnce());
  EXPECT_EQ(loop.next_work(), quick.from);
  quick.work = 0;
  EXPECT_FALSE(loop.RunOnce());
  EXPECT_EQ(loop.next_work(), TimePoint::max());
}

TEST(DeviceLoop, ASlotThatYieldsNeverStepsTwiceWhileAnotherWaits) {
  struct Yielding final : Slot {
    explicit Yielding(FakeInstance* slot) : slot_(*slot) {}
    InstanceReadiness Prepare(TimePoint now) override { return slot_.Prepare(now); }
    bool Step() override { return slot_.Step(); }
    double weight() const override { return slot_.weight(); }
    bool yields() const override { return true; }
    FakeInstance& slot_;
  };
  ManualClock clock;
  std::string trace;
  FakeInstance long_steps(&clock, milliseconds(20), 1, &trace, 'd'),
      short_steps(&clock, milliseconds(1), 1, &trace, 'e');
  Yielding yielding(&short_steps);
  DeviceLoop loop(&clock);
  loop.Add(&long_steps);
  loop.Add(&yielding);
  long_steps.work = 50;
  short_steps.work = 100;
  while (loop.RunOnce()) {
  }
  // By time it had twenty steps for one of the other's. It gets one, and all once it is alone.
  EXPECT_EQ(trace.find("ee"), trace.rfind('d') + 1);
  EXPECT_EQ(std::count(trace.begin(), trace.end(), 'e'), 100);
}

TEST(DeviceLoop, ASlotIsToldWhoWaitsAndHowLongItsStepsTake) {
  struct Listening final : Slot {
    InstanceReadiness Prepare(TimePoint) override { return {true, TimePoint::max()}; }
    bool Step() override { return true; }
    void OnContention(const Contention& contention) override { heard.push_back(contention); }
    std::vector<Contention> heard;
  };
  ManualClock clock;
  std::string trace;
  FakeInstance other(&clock, milliseconds(20), 1, &trace, 'd');
  Listening listening;
  DeviceLoop loop(&clock);
  loop.Add(&other);
  loop.Add(&listening);
  ASSERT_TRUE(loop.RunOnce());
  ASSERT_FALSE(listening.heard.empty());
  EXPECT_FALSE(listening.heard[0].ready);
  EXPECT_FALSE(listening.heard[0].lately);
  other.work = 3;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(loop.RunOnce());
  ASSERT_GE(listening.heard.size(), 2u);
  const bool told = std::any_of(listening.heard.begin(), listening.heard.end(), [](const auto& n) {
    return n.ready && n.step == milliseconds(20);
  });
  EXPECT_TRUE(told);
  other.work = 0;
  ASSERT_TRUE(loop.RunOnce());
  EXPECT_FALSE(listening.heard.back().ready);
  EXPECT_TRUE(listening.heard.back().lately);
  clock.Advance(kContentionTime + milliseconds(1));
  ASSERT_TRUE(loop.RunOnce());
  EXPECT_FALSE(listening.heard.back().lately);
}

TEST(DeviceLoop, TwoEnginesOnOneDeviceNeverOverlap) {
  FakeModelRunner a({}), b({});
  std::atomic<int> inside{0}, overlaps{0};
  for (FakeModelRunner* runner : {&a, &b}) {
    runner->step_time = [&](const StepPlan&) {
      if (inside.fetch_add(1) != 0) ++overlaps;
      std::this_thread::yield();
      --inside;
      return Duration(0);
    };
  }
  FakeTokenText text;
  SteadyClock clock;
  DeviceLoop loop(&clock);
  loop.Start();
  {
    Engine first({}, {&a, &text, &clock}, &loop), second({}, {&b, &text, &clock}, &loop);
    std::vector<api::Generation> live;
    for (int i = 0; i < 60; ++i) {
      Result<api::Generation> g =
          (i % 2 ? first : second).Submit(TestRequest(TestPrompt(i, 20), 20), nullptr);
      ASSERT_TRUE(g.ok());
      live.push_back(*std::move(g));
    }
    EXPECT_TRUE(first.Drain(clock.Now() + seconds(10)));
    EXPECT_TRUE(second.Drain(clock.Now() + seconds(10)));
    for (const auto& g : live) EXPECT_TRUE(g.stream().ended() && g.stream().status().ok());
  }
  loop.Stop();
  EXPECT_EQ(overlaps, 0);
  EXPECT_GT(a.steps(), 0u);
  EXPECT_GT(b.steps(), 0u);
}

struct CountingWaker final : Waker {
  std::atomic<int> wakes{0};
  void Wake() noexcept override { ++wakes; }
};

// One wake for each distinct waker a step, however many streams it serves.
TEST(DeviceLoop, WakesAReaderOnceAStepForAllItsStreams) {
  FakeModelRunner runner({});
  FakeTokenText text;
  ManualClock clock;
  EngineOptions options;
  options.scheduler.max_num_seqs = 32;
  Engine engine(options, {&runner, &text, &clock});
  auto one = std::make_shared<CountingWaker>(), two = std::make_shared<CountingWaker>();
  std::vector<api::Generation> live;
  for (int i = 0; i < 32; ++i) {
    Result<api::Generation> g =
        engine.Submit(TestRequest(TestPrompt(i, 4), 20), i % 4 == 0 ? one : two);
    ASSERT_TRUE(g.ok());
    live.push_back(*std::move(g));
  }
  int steps = 0;
  while (engine.RunOneStep()) ++steps;
  EXPECT_LE(one->wakes, steps + 1);  // one more for the first events
  EXPECT_LE(two->wakes, steps + 1);
  EXPECT_GE(one->wakes, 20);
}

// An idle engine burns no CPU; a submission wakes it at once.
TEST(DeviceLoop, AnIdleEngineBurnsNoCpuAndWakesAtOnce) {
  FakeModelRunner runner({});
  FakeTokenText text;
  SteadyClock clock;
  Engine engine({}, {&runner, &text, &clock});
  engine.Start();
  // One parked request: it waits for a grant, and costs next to nothing.
  Request parked = TestRequest(TestPrompt(1, 10), 5);
  parked.stepwise = true;
  Result<api::Generation> keep = engine.Submit(std::move(parked), nullptr);
  ASSERT_TRUE(keep.ok());
  std::this_thread::sleep_for(milliseconds(50));
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(milliseconds(1000));
  getrusage(RUSAGE_SELF, &after);
  const auto cpu = [](const rusage& u) {
    return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  EXPECT_LT(cpu(after) - cpu(before), 0.05);
  EXPECT_LT(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw, 50);
  const TimePoint sent = clock.Now();
  Result<api::Generation> g = engine.Submit(TestRequest(TestPrompt(2, 10), 5), nullptr);
  ASSERT_TRUE(g.ok());
  while (!g->stream().ended() && clock.Now() - sent < seconds(5)) std::this_thread::yield();
  EXPECT_TRUE(g->stream().ended());
}

TEST(DeviceLoop, ASlowStepDelaysNeitherSubmissionNorStatistics) {
  FakeModelRunner runner({});
  std::atomic<bool> hold{true};
  runner.step_time = [&](const StepPlan&) {
    while (hold.load()) std::this_thread::sleep_for(milliseconds(1));
    return Duration(0);
  };
  FakeTokenText text;
  SteadyClock clock;
  Engine engine({}, {&runner, &text, &clock});
  engine.Start();
  std::vector<api::Generation> live;
  const TimePoint begin = clock.Now();
  for (int i = 0; i < 50; ++i) {
    Result<api::Generation> g = engine.Submit(TestRequest(TestPrompt(i, 10), 5), nullptr);
    ASSERT_TRUE(g.ok());
    live.push_back(*std::move(g));
    EXPECT_GE(engine.Load().waiting + engine.Load().running, 1);
    if (i == 10) live[5].Cancel();
  }
  EXPECT_LT(clock.Now() - begin, milliseconds(500));
  hold = false;
  EXPECT_TRUE(engine.Drain(clock.Now() + seconds(10)));
  EXPECT_EQ(live[5].stream().status().code(), StatusCode::kCancelled);
}

TEST(DeviceLoop, LivenessFollowsTheStepLoop) {
  FakeModelRunner runner({});
  ManualClock clock;
  std::atomic<bool> hold{true};
  std::atomic<bool> inside{false};
  runner.step_time = [&](const StepPlan&) {
    inside = true;
    while (hold.load()) std::this_thread::sleep_for(milliseconds(1));
    return Duration(0);
  };
  FakeTokenText text;
  Engine engine({}, {&runner, &text, &clock});
  EXPECT_TRUE(engine.Live().ok());
  engine.Start();
  std::this_thread::sleep_for(milliseconds(5));
  clock.Advance(
      std::chrono::hours(1));  // idle for long: no reason to worry when a request comes at last
  EXPECT_TRUE(engine.Live().ok());
  Result<api::Generation> g = engine.Submit(TestRequest(TestPrompt(1, 10), 5), nullptr);
  ASSERT_TRUE(g.ok());
  while (!inside) {
    EXPECT_TRUE(engine.Live().ok());
    std::this_thread::yield();
  }
  clock.Advance(seconds(9));
  EXPECT_TRUE(engine.Live().ok());
  clock.Advance(seconds(2));
  EXPECT_EQ(engine.Live().reason(), "engine_stalled");
  hold = false;
  while (!g->stream().ended()) std::this_thread::sleep_for(milliseconds(1));
  // The stream's end is visible before the loop's next heartbeat.
  for (int i = 0; i < 10'000 && !engine.Live().ok(); ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(engine.Live().ok());
}

TEST(DeviceLoop, ADrainPastItsDeadlineEndsWhatIsLeft) {
  FakeModelRunner runner({});
  runner.step_time = [](const StepPlan&) {
    std::this_thread::sleep_for(milliseconds(5));
    return Duration(0);
  };
  FakeTokenText text;
  SteadyClock clock;
  Engine engine({}, {&runner, &text, &clock});
  engine.Start();
  Result<api::Generation> g = engine.Submit(TestRequest(TestPrompt(1, 10), 1000), nullptr);
  ASSERT_TRUE(g.ok());
  EXPECT_FALSE(engine.Drain(clock.Now() + milliseconds(100)));
  ASSERT_TRUE(g->stream().ended());
  EXPECT_EQ(g->stream().status().reason(), "draining");
  EXPECT_TRUE(engine.Drain(clock.Now() + milliseconds(100)));
}

}  // namespace
}  // namespace tutti::engine
