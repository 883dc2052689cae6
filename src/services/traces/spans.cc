#include "services/traces/spans.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::traces {
namespace {

using api::RequestTrace;
using api::TraceEvent;
using Attributes = google::protobuf::RepeatedPtrField<otlp::KeyValue>;
using Kind = TraceEvent::Kind;

constexpr int kFirstServerError = 500;

template <typename Bytes>
std::string BytesOf(const Bytes& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

void Append(const std::string& key, int64_t value, Attributes* attributes) {
  otlp::KeyValue* const attribute = attributes->Add();
  attribute->set_key(key);
  attribute->mutable_value()->set_int_value(value);
}

void Append(const std::string& key, double value, Attributes* attributes) {
  otlp::KeyValue* const attribute = attributes->Add();
  attribute->set_key(key);
  attribute->mutable_value()->set_double_value(value);
}

void AppendKnown(const std::string& key, const std::string& value, Attributes* attributes) {
  if (!value.empty()) AppendAttribute(key, value, attributes);
}

// gen_ai.operation.name; empty: the conventions have no name for the route.
std::string_view OperationOf(std::string_view route) {
  const auto has = [route](std::string_view part) {
    return route.find(part) != std::string_view::npos;
  };
  if (has("embed")) return "embeddings";
  if (has("chat") || has("responses") || has("messages") || has("mqtt")) return "chat";
  if (has("completions") || has("generate")) return "text_completion";
  return "";
}

// The spans of one request. Its times are those of the monotonic clock, moved by the one time at
// which both clocks were read, so that durations are exact.
class Spans {
 public:
  Spans(const RequestTrace& trace, otlp::ScopeSpans* out)
      : head_(trace.head()),
        trace_(trace),
        events_(api::EventsByTime(trace)),
        end_(events_.empty() ? head_.begun_at : std::max(head_.begun_at, events_.back().at)),
        out_(out) {}

  void Append() {
    AppendRequest();
    AppendStages();
    AppendHop();
  }

 private:
  otlp::Span* Add(const SpanId& id, const SpanId& parent, const std::string& name,
                  otlp::Span::Kind kind, TimePoint begin, TimePoint end) {
    otlp::Span* const span = out_->add_spans();
    span->set_trace_id(BytesOf(head_.context.trace_id));
    span->set_span_id(BytesOf(id));
    span->set_trace_state(head_.context.state);
    if (parent != SpanId{}) span->set_parent_span_id(BytesOf(parent));
    span->set_name(name);
    span->set_kind(kind);
    span->set_start_time_unix_nano(UnixOf(begin));
    span->set_end_time_unix_nano(UnixOf(std::max(begin, end)));
    span->set_flags(1);  // sampled
    return span;
  }

  // A part of the request, which has no children of another process.
  otlp::Span* AddPart(const SpanId& parent, const std::string& name, TimePoint begin,
                      TimePoint end) {
    return Add(ChildSpanId(head_.context.span_id, ++parts_), parent, name,
               otlp::Span::KIND_INTERNAL, begin, end);
  }

  void AddEvent(const TraceEvent& event, otlp::Span* span) const {
    otlp::Span::Event* const added = span->add_events();
    added->set_time_unix_nano(UnixOf(event.at));
    added->set_name(std::string(api::TraceEventName(event.kind)));
    if (event.kind == Kind::kWaits) {
      AppendAttribute("tutti.wait.reason", std::string(api::WaitReasonName(event.reason)),
                      added->mutable_attributes());
    }
    if (event.choice > 0)
      traces::Append("tutti.choice", int64_t{event.choice}, added->mutable_attributes());
  }

  // Waits, and the ends of waits, within [begin, end].
  void AddWaits(TimePoint begin, TimePoint end, otlp::Span* span) const {
    for (const TraceEvent& event : events_) {
      if (event.at < begin || event.at > end) continue;
      if (event.kind == Kind::kWaits || event.kind == Kind::kRuns) AddEvent(event, span);
    }
  }

  uint64_t UnixOf(TimePoint at) const {
    return static_cast<uint64_t>(head_.begun_unix_ns + (at - head_.begun_at).count());
  }

  void AppendRequest() {
    const std::optional<TraceEvent> written = api::FindEvent(events_, Kind::kWritten);
    const std::optional<TraceEvent> ended = api::FindEvent(events_, Kind::kEnded);
    const std::optional<TraceEvent> submitted = api::FindEvent(events_, Kind::kSubmitted);
    const std::optional<TraceEvent> runs = api::FindEvent(events_, Kind::kRuns);
    otlp::Span* const span = Add(head_.context.span_id, head_.parent.span_id,
                                 head_.route.empty() ? "inference" : head_.route,
                                 otlp::Span::KIND_SERVER, head_.begun_at, end_);
    Attributes* const attributes = span->mutable_attributes();
    AppendKnown("tutti.request.id", head_.id, attributes);
    AppendKnown("tutti.tenant", head_.tenant, attributes);
    AppendKnown("tutti.caller", head_.caller, attributes);
    AppendKnown("gen_ai.operation.name", std::string(OperationOf(head_.route)), attributes);
    AppendAttribute("gen_ai.provider.name", "tutti", attributes);
    AppendKnown("gen_ai.request.model", trace_.model(), attributes);
    if (submitted)
      traces::Append("gen_ai.usage.input_tokens", int64_t{submitted->tokens}, attributes);
    if (runs) traces::Append("tutti.cached_tokens", int64_t{runs->tokens}, attributes);
    if (ended) traces::Append("gen_ai.usage.output_tokens", int64_t{ended->tokens}, attributes);
    if (written) traces::Append("http.response.status_code", int64_t{written->tokens}, attributes);
    const std::string end(ended ? trace_.end() : "");
    const bool failed = !end.empty() && end != "ok" && end != "cancelled";
    AppendKnown("tutti.end", end, attributes);
    if (failed || (written && written->tokens >= kFirstServerError)) {
      const std::string error = failed ? end : std::to_string(written->tokens);
      AppendAttribute("error.type", error, attributes);
      span->mutable_status()->set_code(otlp::Status::CODE_ERROR);
      span->mutable_status()->set_message(error);
    }
    span->set_dropped_events_count(
        static_cast<uint32_t>(trace_.server().dropped() + trace_.engine().dropped()));
  }

  void AppendStages() {
    constexpr const char* kNames[] = {"receive", "prepare", "queue", "prefill", "decode", "send"};
    const TimePoint end = api::EndTimeOf(events_).value_or(end_);
    for (const api::TimedStage& stage : api::StagesOf(events_, head_.begun_at, end)) {
      // The answer was written before the engine learned of it.
      if (stage.stage == api::Stage::kWrite && stage.begin == stage.end) continue;
      otlp::Span* const span = AddPart(
          head_.context.span_id, kNames[static_cast<size_t>(stage.stage)], stage.begin, stage.end);
      const std::string id = span->span_id();
      switch (stage.stage) {
        case api::Stage::kQueue:
          AddWaits(stage.begin, stage.end, span);
          break;
        case api::Stage::kPrefill:
          AppendSteps(id, stage.end, /*until_first=*/true);
          break;
        case api::Stage::kDecode:
          AddDecode(stage, span);
          AppendSteps(id, stage.begin, /*until_first=*/false);
          break;
        default:
          break;
      }
    }
  }

  void AddDecode(const api::TimedStage& stage, otlp::Span* span) const {
    traces::Append("tutti.steps", static_cast<int64_t>(trace_.steps()), span->mutable_attributes());
    if (trace_.longest_gap().count() > 0) {
      traces::Append("tutti.longest_gap_ms", ToMillis(trace_.longest_gap()),
                     span->mutable_attributes());
    }
    AddWaits(stage.begin, stage.end, span);
  }

  // Steps that computed parts of the prompt: those up to the first token, or those of further
  // choices and after a preemption.
  void AppendSteps(const std::string& parent, TimePoint limit, bool until_first) {
    SpanId id;
    std::copy(parent.begin(), parent.end(), id.begin());
    for (const TraceEvent& event : events_) {
      if (event.kind != Kind::kPrefill || (event.at < limit) != until_first) continue;
      otlp::Span* const span = AddPart(id, "prefill.step", event.at, event.at + event.took);
      traces::Append("tutti.step", static_cast<int64_t>(event.step), span->mutable_attributes());
      traces::Append("tutti.tokens", int64_t{event.tokens}, span->mutable_attributes());
    }
  }

  void AppendHop() {
    const std::span<const TraceEvent> hop = trace_.hop().events();
    if (hop.empty()) return;
    const std::optional<TraceEvent> replied = api::FindEvent(hop, Kind::kReplied);
    otlp::Span* const span =
        Add(trace_.HopContext().span_id, head_.context.span_id, "worker", otlp::Span::KIND_CLIENT,
            hop.front().at, replied ? replied->at : end_);
    AppendKnown("tutti.worker", trace_.worker(), span->mutable_attributes());
    // Another worker continues the request of one that was lost.
    for (const TraceEvent& event : hop.subspan(1)) {
      if (event.kind == Kind::kSent) AddEvent(event, span);
    }
  }

  const RequestTrace::Head& head_;
  const RequestTrace& trace_;
  const std::vector<TraceEvent> events_;
  const TimePoint end_;  // time of the last event
  otlp::ScopeSpans* const out_;
  uint64_t parts_ = RequestTrace::kHopSpan;  // spans with ids below that of the request
};

}  // namespace

void AppendAttribute(const std::string& key, const std::string& value, Attributes* attributes) {
  otlp::KeyValue* const attribute = attributes->Add();
  attribute->set_key(key);
  attribute->mutable_value()->set_string_value(value);
}

void AppendSpans(const RequestTrace& trace, otlp::ScopeSpans* out) { Spans(trace, out).Append(); }

}  // namespace tutti::traces
