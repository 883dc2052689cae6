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

std::optional<TraceEvent> Find(std::span<const TraceEvent> events, Kind kind) {
  const auto found = std::find_if(events.begin(), events.end(),
                                  [kind](const TraceEvent& event) { return event.kind == kind; });
  return found == events.end() ? std::nullopt : std::optional(*found);
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
      : head_(trace.head()), trace_(trace), out_(out) {
    const auto add = [this](std::span<const TraceEvent> events) {
      events_.insert(events_.end(), events.begin(), events.end());
    };
    add(trace.server().events());
    add(trace.engine().events());
    add(trace.hop().events());
    std::stable_sort(events_.begin(), events_.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.at < b.at; });
    end_ = head_.begun_at;
    for (const TraceEvent& event : events_) end_ = std::max(end_, event.at);
  }

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
    const std::optional<TraceEvent> written = Find(events_, Kind::kWritten);
    const std::optional<TraceEvent> ended = Find(events_, Kind::kEnded);
    const std::optional<TraceEvent> submitted = Find(events_, Kind::kSubmitted);
    const std::optional<TraceEvent> runs = Find(events_, Kind::kRuns);
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

  // As the stages of /admin/requests/{id} (protocol/live_state.cc).
  void AppendStages() {
    const SpanId& request = head_.context.span_id;
    const auto parsed = Find(events_, Kind::kParsed), accepted = Find(events_, Kind::kAccepted);
    const auto submitted = Find(events_, Kind::kSubmitted), runs = Find(events_, Kind::kRuns);
    const auto first = Find(events_, Kind::kFirstToken), ended = Find(events_, Kind::kEnded);
    const auto written = Find(events_, Kind::kWritten);
    const TimePoint computed = ended ? ended->at : end_;
    if (parsed) AddPart(request, "receive", head_.begun_at, parsed->at);
    if (accepted) AddPart(request, "prepare", accepted->at, accepted->at + accepted->took);
    if (submitted) {
      const TimePoint until = runs ? runs->at : computed;
      otlp::Span* const span = AddPart(request, "queue", submitted->at, until);
      AddWaits(submitted->at, until, span);
    }
    if (runs) {
      const TimePoint until = first ? first->at : computed;
      const std::string id = AddPart(request, "prefill", runs->at, until)->span_id();
      AppendSteps(id, until, /*until_first=*/true);
    }
    if (first) {
      otlp::Span* const span = AddPart(request, "decode", first->at, computed);
      Attributes* const attributes = span->mutable_attributes();
      traces::Append("tutti.steps", static_cast<int64_t>(trace_.steps()), attributes);
      if (trace_.longest_gap().count() > 0)
        traces::Append("tutti.longest_gap_ms", ToMillis(trace_.longest_gap()), attributes);
      AddWaits(first->at, computed, span);
      const std::string id = span->span_id();
      AppendSteps(id, first->at, /*until_first=*/false);
    }
    if (ended && written && written->at > ended->at)
      AddPart(request, "send", ended->at, written->at);
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
    const std::optional<TraceEvent> replied = Find(hop, Kind::kReplied);
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
  otlp::ScopeSpans* const out_;
  std::vector<TraceEvent> events_;
  TimePoint end_;
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
