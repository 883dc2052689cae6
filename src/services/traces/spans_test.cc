#include "services/traces/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/ascii.h"

namespace tutti::traces {
namespace {

using api::RequestTrace;
using api::TraceEvent;
using std::chrono::milliseconds;
using Kind = TraceEvent::Kind;

constexpr int64_t kBegunNs = 1'700'000'000'123'456'789;

class SpansTest : public ::testing::Test {
 protected:
  SpansTest() { traces_.CollectForExport(1); }

  std::shared_ptr<RequestTrace> Begin(const std::string& route = "chat.completions") {
    return traces_.Begin(
        {.id = "req-1",
         .route = route,
         .tenant = "team",
         .caller = "key:k1",
         .begun_unix_ns = kBegunNs,
         .begun_at = at(0),
         .parent = ReadTraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                    "vendor=1")});
  }
  static TimePoint at(int ms) { return TimePoint(milliseconds(1000 + ms)); }

  // One chat: 2 ms to read, 1 ms to prepare, queued until 10, prompt in two steps, first token
  // at 50.
  static void Chat(RequestTrace& trace, const char* end = "ok", int status = 200) {
    trace.server().Append({.at = at(0), .kind = Kind::kReceived});
    trace.server().Append({.at = at(2), .kind = Kind::kParsed});
    auto& engine = trace.engine();
    engine.Append({.at = at(2), .took = milliseconds(1), .kind = Kind::kAccepted});
    engine.Append({.at = at(4), .tokens = 300, .kind = Kind::kSubmitted});
    engine.Append({.at = at(5), .kind = Kind::kWaits, .reason = api::WaitReason::kMaxNumSeqs});
    engine.Append({.at = at(10), .tokens = 32, .kind = Kind::kRuns});
    engine.Append(
        {.at = at(10), .took = milliseconds(20), .step = 7, .tokens = 128, .kind = Kind::kPrefill});
    engine.Append(
        {.at = at(30), .took = milliseconds(20), .step = 8, .tokens = 140, .kind = Kind::kPrefill});
    engine.Append({.at = at(50), .kind = Kind::kFirstToken});
    engine.Append({.at = at(60), .kind = Kind::kWaits, .reason = api::WaitReason::kPreempted});
    engine.Append({.at = at(70), .tokens = 0, .kind = Kind::kRuns});
    trace.SetModel("m");
    trace.SetEnd(end);
    engine.Append({.at = at(90), .tokens = 16, .kind = Kind::kEnded});
    trace.server().Append({.at = at(92), .tokens = status, .kind = Kind::kWritten});
  }

  static otlp::ScopeSpans SpansOf(const RequestTrace& trace) {
    otlp::ScopeSpans spans;
    AppendSpans(trace, &spans);
    return spans;
  }
  static const otlp::Span& Find(const otlp::ScopeSpans& spans, const std::string& name) {
    const auto found = std::find_if(spans.spans().begin(), spans.spans().end(),
                                    [&](const otlp::Span& span) { return span.name() == name; });
    EXPECT_NE(found, spans.spans().end()) << name;
    static const otlp::Span none;
    return found == spans.spans().end() ? none : *found;
  }
  static double BeginMs(const otlp::Span& span) {
    return static_cast<double>(span.start_time_unix_nano() - kBegunNs) / 1e6;
  }
  static double EndMs(const otlp::Span& span) {
    return static_cast<double>(span.end_time_unix_nano() - kBegunNs) / 1e6;
  }
  static std::map<std::string, std::string> AttributesOf(const otlp::Span& span) {
    std::map<std::string, std::string> all;
    for (const otlp::KeyValue& attribute : span.attributes()) {
      const otlp::AnyValue& value = attribute.value();
      all[attribute.key()] = value.has_int_value()      ? std::to_string(value.int_value())
                             : value.has_double_value() ? std::to_string(value.double_value())
                                                        : value.string_value();
    }
    return all;
  }

  api::RequestTraces traces_;
};

TEST_F(SpansTest, StagesOfAChatTileItsTime) {
  const auto trace = Begin();
  Chat(*trace);
  const otlp::ScopeSpans spans = SpansOf(*trace);
  const otlp::Span& request = Find(spans, "chat.completions");
  EXPECT_EQ(request.kind(), otlp::Span::KIND_SERVER);
  EXPECT_EQ(BeginMs(request), 0);
  EXPECT_EQ(EndMs(request), 92);
  const std::map<std::string, std::pair<double, double>> expected = {
      {"receive", {0, 2}},   {"prepare", {2, 3}},  {"queue", {4, 10}},
      {"prefill", {10, 50}}, {"decode", {50, 90}}, {"send", {90, 92}}};
  for (const auto& [name, times] : expected) {
    const otlp::Span& span = Find(spans, name);
    EXPECT_EQ(BeginMs(span), times.first) << name;
    EXPECT_EQ(EndMs(span), times.second) << name;
    EXPECT_EQ(span.parent_span_id(), request.span_id()) << name;
    EXPECT_EQ(span.kind(), otlp::Span::KIND_INTERNAL);
  }
  EXPECT_EQ(spans.spans_size(), 9) << "and two steps";
}

TEST_F(SpansTest, StepsOfThePromptAreChildrenOfPrefill) {
  const auto trace = Begin();
  Chat(*trace);
  const otlp::ScopeSpans spans = SpansOf(*trace);
  double until = 10;
  int steps = 0;
  for (const otlp::Span& span : spans.spans()) {
    if (span.name() != "prefill.step") continue;
    EXPECT_EQ(span.parent_span_id(), Find(spans, "prefill").span_id());
    EXPECT_EQ(BeginMs(span), until);
    until = EndMs(span);
    EXPECT_EQ(AttributesOf(span)["tutti.step"], std::to_string(7 + steps));
    ++steps;
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(until, 50);
}

TEST_F(SpansTest, IdsContinueTheCallersTrace) {
  const auto trace = Begin();
  Chat(*trace);
  const otlp::ScopeSpans spans = SpansOf(*trace);
  std::map<std::string, int> seen;
  for (const otlp::Span& span : spans.spans()) {
    EXPECT_EQ(ToHex(span.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span.trace_state(), "vendor=1");
    EXPECT_EQ(span.flags(), 1u);
    EXPECT_EQ(span.span_id().size(), 8u);
    EXPECT_EQ(++seen[span.span_id()], 1);
  }
  EXPECT_EQ(ToHex(Find(spans, "chat.completions").parent_span_id()), "00f067aa0ba902b7");
}

TEST_F(SpansTest, AttributesNameTheRequestAndItsTokens) {
  const auto trace = Begin();
  Chat(*trace);
  const auto attributes = AttributesOf(Find(SpansOf(*trace), "chat.completions"));
  const std::map<std::string, std::string> expected = {{"tutti.request.id", "req-1"},
                                                       {"tutti.tenant", "team"},
                                                       {"tutti.caller", "key:k1"},
                                                       {"tutti.cached_tokens", "32"},
                                                       {"tutti.end", "ok"},
                                                       {"gen_ai.operation.name", "chat"},
                                                       {"gen_ai.provider.name", "tutti"},
                                                       {"gen_ai.request.model", "m"},
                                                       {"gen_ai.usage.input_tokens", "300"},
                                                       {"gen_ai.usage.output_tokens", "16"},
                                                       {"http.response.status_code", "200"}};
  EXPECT_EQ(attributes, expected);
}

TEST_F(SpansTest, WaitsAreEventsOfTheirStage) {
  const auto trace = Begin();
  Chat(*trace);
  const otlp::ScopeSpans spans = SpansOf(*trace);
  const otlp::Span& queue = Find(spans, "queue");
  ASSERT_EQ(queue.events_size(), 2);
  EXPECT_EQ(queue.events(0).name(), "waits");
  EXPECT_EQ(queue.events(0).attributes(0).value().string_value(), "max_num_seqs");
  EXPECT_EQ(queue.events(1).name(), "runs");
  const otlp::Span& decode = Find(spans, "decode");
  ASSERT_EQ(decode.events_size(), 2);
  EXPECT_EQ(decode.events(0).attributes(0).value().string_value(), "preempted");
}

TEST_F(SpansTest, FailuresAreErrorsButNotCancellations) {
  const std::map<std::string, bool> ends = {
      {"ok", false}, {"cancelled", false}, {"deadline_exceeded", true}};
  for (const auto& [end, error] : ends) {
    const auto trace = Begin();
    Chat(*trace, end.c_str());
    const otlp::ScopeSpans spans = SpansOf(*trace);
    const otlp::Span& request = Find(spans, "chat.completions");
    EXPECT_EQ(request.status().code() == otlp::Status::CODE_ERROR, error) << end;
    if (error) {
      EXPECT_EQ(AttributesOf(request)["error.type"], end);
    }
  }
}

TEST_F(SpansTest, ARefusedRequestHasNoStagesOfTheEngine) {
  const auto trace = Begin();
  trace->server().Append({.at = at(0), .kind = Kind::kReceived});
  trace->server().Append({.at = at(2), .kind = Kind::kParsed});
  trace->server().Append({.at = at(3), .tokens = 503, .kind = Kind::kWritten});
  const otlp::ScopeSpans spans = SpansOf(*trace);
  EXPECT_EQ(spans.spans_size(), 2);
  EXPECT_EQ(Find(spans, "chat.completions").status().code(), otlp::Status::CODE_ERROR);
}

TEST_F(SpansTest, TheWayToAWorkerIsASpanOfItsOwn) {
  const auto trace = Begin();
  trace->server().Append({.at = at(0), .kind = Kind::kReceived});
  trace->SetWorker("host:1");
  trace->hop().Append({.at = at(1), .kind = Kind::kSent});
  trace->SetWorker("host:2");
  trace->hop().Append({.at = at(20), .kind = Kind::kSent});
  trace->hop().Append({.at = at(30), .kind = Kind::kReplied}, true);
  trace->server().Append({.at = at(31), .tokens = 200, .kind = Kind::kWritten});
  const otlp::ScopeSpans spans = SpansOf(*trace);
  const otlp::Span& hop = Find(spans, "worker");
  EXPECT_EQ(hop.kind(), otlp::Span::KIND_CLIENT);
  EXPECT_EQ(BeginMs(hop), 1);
  EXPECT_EQ(EndMs(hop), 30);
  EXPECT_EQ(ToHex(hop.span_id()), ToHex(trace->HopContext().span_id));
  EXPECT_EQ(AttributesOf(hop)["tutti.worker"], "host:2");
  ASSERT_EQ(hop.events_size(), 1) << "it moved once";

  // What the worker makes of the context that it is sent.
  api::RequestTraces at_worker;
  at_worker.CollectForExport(0);
  const auto received = at_worker.Begin({.id = "req-1", .parent = trace->HopContext()});
  EXPECT_TRUE(received->head().context.sampled);
  const otlp::ScopeSpans children = SpansOf(*received);
  EXPECT_EQ(Find(children, "inference").parent_span_id(), hop.span_id());
}

}  // namespace
}  // namespace tutti::traces
