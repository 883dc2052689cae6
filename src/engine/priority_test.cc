// Row U32 on the timing device: who goes first, and who preempts whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/random.h"
#include "engine/testing/engine_harness.h"

namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EngineHarness;
using testing::FakeModelOptions;
using testing::HarnessClient;
using testing::TestPrompt;
using testing::TestRequest;

FakeModelOptions PriorityPool() {
  FakeModelOptions model;
  model.limits.kv_blocks = 2048;
  model.sample_rows = false;
  return model;
}

EngineOptions PatientEngine(int max_num_seqs) {
  EngineOptions options;
  options.scheduler.max_num_seqs = max_num_seqs;
  options.queue.age = Duration::max();
  options.queue.requests = 100'000;
  return options;
}

void RunUntil(EngineHarness& h, Duration time) {
  while (h.now() < time && h.RunOnce()) {
  }
}

TEST(Priority, HigherPriorityPreemptsAFullBatchAndTheVictimResumesExactly) {
  EngineOptions options = PatientEngine(2);
  EngineHarness h(options, PriorityPool());
  for (int i = 0; i < 2; ++i) {
    Request low = TestRequest(TestPrompt(i * 50, 20), 300, 0.8);
    low.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(low));
  }
  RunUntil(h, milliseconds(200));
  const size_t high = h.MustSubmit(TestRequest(TestPrompt(500, 20), 10));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(high).done(); }));
  EXPECT_LE(h.client(high).timings.queue, milliseconds(20)) << "at the next step";
  EXPECT_FALSE(h.client(0).done());
  EXPECT_FALSE(h.client(1).done());
  EXPECT_EQ(h.engine().stats().preemptions, 1u);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.engine().stats().preemptions, 1u);
  for (size_t i = 0; i < h.size(); ++i) {
    EXPECT_TRUE(h.client(i).status().ok()) << h.client(i).status();
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  }
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

// N41: a single request under batch load waited for a step of all batch rows, and its own prompt
// was then computed together with those rows: its first text took four times as long as alone.
TEST(Priority, AnInteractivePromptIsComputedWithoutBatchRowsBesideIt) {
  EngineHarness h(PatientEngine(8), PriorityPool());
  for (int i = 0; i < 7; ++i) {
    Request low = TestRequest(TestPrompt(i * 50, 20), 400, 0.8);
    low.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(low));
  }
  RunUntil(h, milliseconds(300));
  const size_t high = h.MustSubmit(TestRequest(TestPrompt(500, 20), 10));
  const auto said = [&](size_t client) {
    const auto& choices = h.client(client).choices;
    return choices.empty() ? size_t{0} : choices[0].tokens.size();
  };
  std::vector<size_t> before;
  for (size_t i = 0; i < 7; ++i) before.push_back(said(i));
  ASSERT_TRUE(h.RunUntil([&] { return said(high) == 1; }));
  // The step that was under way, perhaps, and no more.
  for (size_t i = 0; i < 7; ++i) EXPECT_LE(said(i), before[i] + 1) << i;
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i)
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

// N41: a request that arrived during a step of batch work alone once waited for its end, which for
// a prompt of a few words was half of the time that it takes alone.
TEST(Priority, AStepOfBatchWorkAloneIsGivenUpForWhoComes) {
  EngineHarness h(PatientEngine(8), PriorityPool());
  for (int i = 0; i < 7; ++i) {
    Request low = TestRequest(TestPrompt(i * 50, 20), 400, 0.8);
    low.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(low));
  }
  RunUntil(h, milliseconds(300));
  const auto said = [&](size_t client) {
    const auto& choices = h.client(client).choices;
    return choices.empty() ? size_t{0} : choices[0].tokens.size();
  };
  std::vector<size_t> before;
  for (size_t i = 0; i < 7; ++i) before.push_back(said(i));
  std::optional<size_t> high;
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice*) {
    if (!high && plan.abortable) high = h.MustSubmit(TestRequest(TestPrompt(500, 20), 10));
    return OkStatus();
  };
  ASSERT_TRUE(h.RunUntil([&] { return high && said(*high) == 1; }));
  EXPECT_EQ(h.runner().aborted(), 1u);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(said(i), before[i]) << i;
  ASSERT_TRUE(h.RunToEnd());
  for (size_t i = 0; i < h.size(); ++i)
    EXPECT_EQ(h.client(i).choices[0].tokens, h.Solo(h.client(i).request)) << i;
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

TEST(Priority, StepsThatAreGivenUpWithoutEndDoNotStopBatchRows) {
  EngineHarness h(PatientEngine(4), PriorityPool());
  Request low = TestRequest(TestPrompt(0, 20), 40);
  low.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(low));
  int sent = 0;
  h.runner().fault = [&](const StepPlan& plan, const SequenceSlice* slice) {
    if (slice == nullptr && plan.abortable && sent < 2000) {
      ++sent;
      h.MustSubmit(TestRequest(TestPrompt(1000 + sent, 5), 1));
    }
    return OkStatus();
  };
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).done(); }));
  EXPECT_LT(sent, 2000);
  EXPECT_GE(h.runner().aborted(), 30u);
  ASSERT_TRUE(h.RunToEnd());
  EXPECT_EQ(h.client(0).choices[0].tokens, h.Solo(h.client(0).request));
  EXPECT_THAT(h.runner().violations(), ::testing::IsEmpty());
}

// N41: a step with prompts of batch work alone once took up to the target of gaps, and an arriving
// request waited for all of it.
TEST(Priority, StepsOfBatchWorkAloneAreShort) {
  EngineHarness h(PatientEngine(8), PriorityPool());
  for (int i = 0; i < 40; ++i) {
    Request low = TestRequest(TestPrompt(i * 500, 400), 5);
    low.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(low));
  }
  RunUntil(h, milliseconds(200));  // until what a token costs is known
  Duration longest{0};
  for (int i = 0; i < 100; ++i) {
    const Duration before = h.now();
    ASSERT_TRUE(h.RunOnce());
    longest = std::max(longest, h.now() - before);
  }
  EXPECT_LE(longest, milliseconds(17));
  ASSERT_TRUE(h.RunToEnd());
}

TEST(Priority, PromptsWithoutEndDoNotStopBatchRows) {
  EngineHarness h(PatientEngine(4), PriorityPool());
  Request low = TestRequest(TestPrompt(0, 20), 40);
  low.priority = api::Priority::kBatch;
  h.MustSubmit(std::move(low));
  RunUntil(h, milliseconds(50));
  // In each step some of another long prompt is computed.
  for (int i = 0; i < 400 && !h.client(0).done(); ++i) {
    h.MustSubmit(TestRequest(TestPrompt(1000 + i * 300, 300), 1));
    RunUntil(h, h.now() + milliseconds(30));
  }
  EXPECT_TRUE(h.client(0).done());
  ASSERT_TRUE(h.RunToEnd());
}

TEST(Priority, EqualsAndOtherTenantsPreemptNobody) {
  EngineHarness h(PatientEngine(1), PriorityPool());
  Request running = TestRequest(TestPrompt(0, 20), 100);
  running.tenant = "modest";
  running.priority = api::Priority::kFlex;
  h.MustSubmit(std::move(running));
  RunUntil(h, milliseconds(100));
  Request equal = TestRequest(TestPrompt(50, 20), 10);
  equal.tenant = "modest";
  equal.priority = api::Priority::kFlex;
  h.MustSubmit(std::move(equal));
  ASSERT_TRUE(h.RunUntil([&] { return h.client(0).done(); }));
  EXPECT_EQ(h.engine().stats().preemptions, 0u);
  ASSERT_TRUE(h.RunToEnd());

  // A request of another tenant preempts nothing either, in any class: it runs next.
  EngineHarness other(PatientEngine(2), PriorityPool());
  for (int i = 0; i < 2; ++i) {
    Request low = TestRequest(TestPrompt(i * 50, 20), 100);
    low.tenant = "batches";
    low.priority = api::Priority::kBatch;
    other.MustSubmit(std::move(low));
  }
  RunUntil(other, milliseconds(100));
  Request high = TestRequest(TestPrompt(200, 20), 10);
  high.tenant = "talks";
  other.MustSubmit(std::move(high));
  ASSERT_TRUE(other.RunToEnd());
  EXPECT_EQ(other.engine().stats().preemptions, 0u);
}

TEST(Priority, NoEvictAndOtherStrategiesInterruptNobody) {
  for (const bool no_evict : {true, false}) {
    EngineOptions options = PatientEngine(1);
    if (no_evict) {
      options.scheduler.admission = Admission::kNoEvict;
    } else {
      options.scheduler.strategy = Strategy::kBlocking;
    }
    EngineHarness h(options, PriorityPool());
    Request low = TestRequest(TestPrompt(0, 20), 100);
    low.priority = api::Priority::kBatch;
    h.MustSubmit(std::move(low));
    RunUntil(h, milliseconds(100));
    h.MustSubmit(TestRequest(TestPrompt(50, 20), 10));
    ASSERT_TRUE(h.RunToEnd());
    EXPECT_EQ(h.engine().stats().preemptions, 0u);
    EXPECT_LT(h.client(0).ended_at, h.client(1).ended_at);
  }
}

// U32: high-priority requests keep coming, more than can be served, from before the low-priority
// one and after it started. The low one is still done within 60 s.
TEST(Priority, ALowRequestUnderConstantHighLoadIsDoneWithinItsAgeingBound) {
  for (const bool first : {true, false}) {
    for (const int max_num_seqs : {1, 4}) {
      EngineHarness h(PatientEngine(max_num_seqs), PriorityPool());
      const auto send_low = [&] {
        Request request = TestRequest(TestPrompt(9, 30), 100);
        request.priority = api::Priority::kBatch;
        return h.MustSubmit(std::move(request));
      };
      size_t low = 0;
      if (first) low = send_low();
      for (int i = 0; i < 70 * 25 * max_num_seqs; ++i) {
        h.At(milliseconds(40) * i / max_num_seqs + milliseconds(5),
             [&h, i] { h.MustSubmit(TestRequest(TestPrompt(100 + i * 7, 5), 10)); });
      }
      if (!first) {
        RunUntil(h, seconds(1));
        low = send_low();
      }
      const TimePoint sent = h.client(low).sent;
      ASSERT_TRUE(h.RunUntil([&] { return h.client(low).done(); }));
      EXPECT_LE(h.client(low).ended_at - sent, seconds(60)) << max_num_seqs;
      EXPECT_GE(h.client(low).ended_at - sent, seconds(10)) << "the load was none";
      EXPECT_EQ(h.client(low).choices[0].tokens, h.Solo(h.client(low).request));
      // Interrupted while it was young; not once its age had let it run.
      EXPECT_EQ(h.engine().stats().preemptions, first ? 1u : 0u);
    }
  }
}

TEST(Priority, RequestsOfTheSameMomentAndClassKeepTheirOrder) {
  EngineHarness h(PatientEngine(1), PriorityPool());
  Random random(8);
  for (int i = 0; i < 200; ++i) {
    Request request = TestRequest(TestPrompt(i * 7, 1 + static_cast<int>(random.Below(30))),
                                  1 + static_cast<int>(random.Below(8)));
    request.priority = static_cast<api::Priority>(random.Below(3));
    request.tenant = random.Chance(0.5) ? "a" : "";
    request.tenant_weight = random.Chance(0.5) ? 1 : 3;
    h.MustSubmit(std::move(request));
    EXPECT_EQ(h.client(0).sent, h.client(static_cast<size_t>(i)).sent);
  }
  ASSERT_TRUE(h.RunToEnd());
  std::map<std::pair<std::string, api::Priority>, Duration> last;
  for (size_t i = 0; i < h.size(); ++i) {
    const HarnessClient& c = h.client(i);
    // The first of all ran at once.
    Duration& before = last[{c.request.tenant, c.request.priority}];
    EXPECT_GE(c.timings.queue, before) << i;
    before = c.timings.queue;
  }
}

}  // namespace
}  // namespace tutti::engine
