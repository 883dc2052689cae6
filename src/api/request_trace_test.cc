// Traces of requests: bounded, readable while they are written, and kept in the right order.
#include "api/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tutti::api {
namespace {

using Kind = TraceEvent::Kind;

TEST(TraceLog, KeepsPlacesForEssentialEvents) {
  TraceLog<12> log;
  for (int i = 0; i < 20; ++i) log.Append({.tokens = i, .kind = Kind::kWaits});
  EXPECT_EQ(log.events().size(), 8u);
  EXPECT_EQ(log.dropped(), 12);
  for (int i = 0; i < 5; ++i) log.Append({.kind = Kind::kEnded}, /*essential=*/true);
  EXPECT_EQ(log.events().size(), 12u);
  EXPECT_EQ(log.dropped(), 13);
  EXPECT_EQ(log.events()[7].tokens, 7);
}

TEST(TraceLog, TimesNeverGoBack) {
  TraceLog<12> log;
  for (const int ms : {5, 3, 7})
    log.Append({.at = TimePoint(std::chrono::milliseconds(ms)), .kind = TraceEvent::Kind::kWaits});
  EXPECT_EQ(log.events()[1].at, log.events()[0].at);
  EXPECT_EQ(log.events()[2].at, TimePoint(std::chrono::milliseconds(7)));
}

TEST(RequestTrace, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kWaitReasons; ++i)
    names.insert(WaitReasonName(static_cast<WaitReason>(i)));
  EXPECT_EQ(names.size(), kWaitReasons);
  for (int i = 0; i <= static_cast<int>(Kind::kEnded); ++i)
    names.insert(TraceEventName(static_cast<Kind>(i)));
  EXPECT_EQ(names.size(), kWaitReasons + static_cast<size_t>(Kind::kEnded) + 1);
}

TEST(RequestTrace, KeepsTheLastSteps) {
  RequestTrace trace({.id = "a"});
  for (uint64_t step = 1; step <= 300; ++step) {
    trace.InStep(step);
    trace.InStep(step);  // through another choice
  }
  EXPECT_EQ(trace.steps(), 300u);
  const std::vector<uint64_t> last = trace.LastSteps();
  ASSERT_EQ(last.size(), RequestTrace::kLastSteps);
  EXPECT_EQ(last.front(), 301 - RequestTrace::kLastSteps);
  EXPECT_EQ(last.back(), 300u);
}

TEST(RequestTrace, CutsLongCodes) {
  RequestTrace trace({.id = "a"});
  trace.SetEnd(std::string(100, 'x'));
  EXPECT_EQ(trace.end(), std::string(47, 'x'));
}

// For ThreadSanitizer too.
TEST(RequestTrace, IsReadWhileItIsWritten) {
  RequestTrace trace({.id = "a"});
  std::thread writer([&] {
    for (int i = 1; i <= 2000; ++i) {
      trace.engine().Append({.at = TimePoint(Duration(i)), .tokens = i, .kind = Kind::kPrefill});
      trace.InStep(static_cast<uint64_t>(i));
      trace.Gap(Duration(i), static_cast<uint64_t>(i));
      trace.Waited(WaitReason::kReader, Duration(1));
    }
    trace.SetEnd("ok");
    trace.engine().Append({.kind = Kind::kEnded}, /*essential=*/true);
  });
  bool ended = false;
  while (!ended) {
    int expected = 0;
    for (const TraceEvent& event : trace.engine().events()) {
      ended = event.kind == Kind::kEnded;
      if (!ended) {
        EXPECT_EQ(event.tokens, ++expected);
      }
    }
    (void)trace.LastSteps();
    (void)trace.longest_gap();
    (void)trace.waited(WaitReason::kReader);
  }
  EXPECT_EQ(trace.end(), "ok");
  writer.join();
  EXPECT_EQ(trace.waited(WaitReason::kReader), Duration(2000));
  EXPECT_EQ(trace.longest_gap_step(), 2000u);
}

TEST(RequestTraces, DropsEndedOnesFirst) {
  RequestTraces traces;
  const std::shared_ptr<RequestTrace> running = traces.Begin({.id = "running"});
  for (size_t i = 0; i < 3 * RequestTraces::kKept; ++i)
    traces.Begin({.id = "ended-" + std::to_string(i)});
  EXPECT_EQ(traces.size(), RequestTraces::kKept);
  EXPECT_EQ(traces.Find("running").size(), 1u);
  EXPECT_TRUE(traces.Find("ended-0").empty());
  EXPECT_EQ(traces.Find("ended-" + std::to_string(3 * RequestTraces::kKept - 1)).size(), 1u);
}

TEST(RequestTraces, AreBoundedIfNoneEnds) {
  RequestTraces traces;
  std::vector<std::shared_ptr<RequestTrace>> running;
  for (size_t i = 0; i < RequestTraces::kKept + 10; ++i)
    running.push_back(traces.Begin({.id = std::to_string(i)}));
  EXPECT_EQ(traces.size(), RequestTraces::kKept);
  EXPECT_TRUE(traces.Find("9").empty());
  EXPECT_EQ(traces.Find("10").size(), 1u);
}

TEST(RequestTraces, FindsAllPromptsOfACall) {
  RequestTraces traces;
  for (int i = 0; i < 3; ++i) traces.Begin({.id = "call", .begun_unix_ns = i});
  const auto found = traces.Find("call");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]->head().begun_unix_ns, 0);
  EXPECT_EQ(found[2]->head().begun_unix_ns, 2);
}

TraceEvent EventOf(TraceEvent::Kind kind) { return {.kind = kind}; }

TEST(RequestTracesExport, CollectsNothingUnlessAsked) {
  RequestTraces traces;
  const TraceContext caller =
      ReadTraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  auto trace = traces.Begin({.id = "a", .parent = caller});
  EXPECT_FALSE(trace->head().context.valid());
  EXPECT_EQ(trace->HopContext(), caller) << "a worker may export";
  trace.reset();
  EXPECT_TRUE(traces.TakeEnded().empty());
}

TEST(RequestTracesExport, TheCallerDecidesAndElseTheRatio) {
  const std::string caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0";
  for (const double ratio : {0.0, 1.0}) {
    RequestTraces traces;
    traces.CollectForExport(ratio);
    const auto sampled = traces.Begin({.id = "1", .parent = ReadTraceContext(caller + "1")});
    const auto unsampled = traces.Begin({.id = "2", .parent = ReadTraceContext(caller + "0")});
    const auto silent = traces.Begin({.id = "3"});
    EXPECT_TRUE(sampled->head().context.sampled);
    EXPECT_FALSE(unsampled->head().context.sampled);
    EXPECT_EQ(silent->head().context.sampled, ratio == 1);
    EXPECT_EQ(sampled->head().context.trace_id, sampled->head().parent.trace_id);
    EXPECT_NE(sampled->head().context.span_id, sampled->head().parent.span_id);
    EXPECT_NE(sampled->HopContext().span_id, sampled->head().context.span_id);
    EXPECT_TRUE(silent->head().context.valid());
  }
}

TEST(RequestTracesExport, TakesEachRequestOnceAfterItsEnd) {
  RequestTraces traces;
  traces.CollectForExport(1);
  const auto written = traces.Begin({.id = "written"});
  written->server().Append(EventOf(TraceEvent::Kind::kReceived));
  EXPECT_TRUE(traces.TakeEnded().empty());
  written->engine().Append(EventOf(TraceEvent::Kind::kSubmitted));
  written->server().Append(EventOf(TraceEvent::Kind::kWritten));
  EXPECT_TRUE(traces.TakeEnded().empty()) << "its client left, and the engine has not ended it";
  written->engine().Append(EventOf(TraceEvent::Kind::kEnded));
  ASSERT_EQ(traces.TakeEnded().size(), 1u);
  EXPECT_TRUE(traces.TakeEnded().empty());

  const auto of_a_job = traces.Begin({.id = "job"});
  of_a_job->engine().Append(EventOf(TraceEvent::Kind::kEnded));
  EXPECT_EQ(traces.TakeEnded().size(), 1u);

  auto forgotten = traces.Begin({.id = "forgotten"});
  forgotten->server().Append(EventOf(TraceEvent::Kind::kReceived));
  EXPECT_TRUE(traces.TakeEnded().empty());
  forgotten.reset();
  EXPECT_EQ(traces.TakeEnded().size(), 1u);
}

TEST(RequestTracesExport, RequestsOutliveTheListOfTheLastOnes) {
  RequestTraces traces;
  traces.CollectForExport(1);
  for (size_t i = 0; i < 3 * RequestTraces::kKept; ++i) traces.Begin({.id = std::to_string(i)});
  EXPECT_EQ(traces.size(), RequestTraces::kKept);
  EXPECT_EQ(traces.TakeEnded().size(), 3 * RequestTraces::kKept);
  EXPECT_EQ(traces.dropped(), 0u);
}

TEST(RequestTracesExport, DropsWhatNobodyTakes) {
  RequestTraces traces;
  traces.CollectForExport(1);
  for (size_t i = 0; i < RequestTraces::kMaxAwaiting + 10; ++i) traces.Begin({});
  EXPECT_EQ(traces.dropped(), 10u);
  EXPECT_EQ(traces.TakeEnded().size(), RequestTraces::kMaxAwaiting);
  traces.Begin({});
  EXPECT_EQ(traces.dropped(), 10u);
  EXPECT_EQ(traces.TakeEnded().size(), 1u);
}

}  // namespace
}  // namespace tutti::api
