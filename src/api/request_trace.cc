#include "api/request_trace.h"

#include "api/token_stream.h"

namespace tutti::api {

std::string_view WaitReasonName(WaitReason reason) {
  constexpr std::string_view kNames[] = {"none",    "next_step",   "max_num_seqs", "kv_blocks",
                                         "behind",  "fair_share",  "priority",     "preempted",
                                         "sibling", "same_prompt", "prefix_load",  "reader",
                                         "grant",   "failed_step", "batch_window"};
  static_assert(std::size(kNames) == kWaitReasons);
  return kNames[static_cast<size_t>(reason)];
}

std::string_view TraceEventName(TraceEvent::Kind kind) {
  constexpr std::string_view kNames[] = {"received",    "parsed", "written", "accepted",
                                         "submitted",   "waits",  "runs",    "prefill",
                                         "first_token", "ended",  "sent",    "replied"};
  static_assert(std::size(kNames) == static_cast<size_t>(TraceEvent::Kind::kReplied) + 1);
  return kNames[static_cast<size_t>(kind)];
}

bool RequestTrace::Cancel() const {
  const std::span<const TraceEvent> events = engine().events();
  if (!events.empty() && events.back().kind == TraceEvent::Kind::kEnded) return false;
  const std::shared_ptr<Cancellable> request = request_.Copy().lock();
  if (request == nullptr) return false;
  request->Cancel();
  return true;
}

std::vector<uint64_t> RequestTrace::LastSteps() const {
  const uint64_t count = steps();
  std::vector<uint64_t> numbers;
  for (uint64_t i = count > kLastSteps ? count - kLastSteps : 0; i < count; ++i)
    numbers.push_back(last_steps_[i % kLastSteps].load(std::memory_order_relaxed));
  // The engine may have overwritten the oldest ones meanwhile.
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<TraceEvent> EventsByTime(const RequestTrace& trace) {
  std::vector<TraceEvent> events;
  for (const std::span<const TraceEvent> part :
       {trace.server().events(), trace.engine().events(), trace.hop().events()})
    events.insert(events.end(), part.begin(), part.end());
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.at < b.at; });
  return events;
}

std::optional<TraceEvent> FindEvent(std::span<const TraceEvent> events, TraceEvent::Kind kind) {
  const auto found = std::find_if(events.begin(), events.end(),
                                  [kind](const TraceEvent& event) { return event.kind == kind; });
  return found == events.end() ? std::nullopt : std::optional(*found);
}

std::optional<TimePoint> EndTimeOf(std::span<const TraceEvent> events) {
  const auto ended = FindEvent(events, TraceEvent::Kind::kEnded);
  const auto written = FindEvent(events, TraceEvent::Kind::kWritten);
  if (!ended && !written) return std::nullopt;
  return std::max(ended ? ended->at : TimePoint::min(), written ? written->at : TimePoint::min());
}

std::vector<TimedStage> StagesOf(std::span<const TraceEvent> events, TimePoint begun,
                                 TimePoint end) {
  using Kind = TraceEvent::Kind;
  const auto parsed = FindEvent(events, Kind::kParsed);
  const auto accepted = FindEvent(events, Kind::kAccepted);
  const auto submitted = FindEvent(events, Kind::kSubmitted);
  const auto runs = FindEvent(events, Kind::kRuns);
  const auto first = FindEvent(events, Kind::kFirstToken);
  const auto ended = FindEvent(events, Kind::kEnded);
  // A request whose end is known has left a stage that it did not complete.
  const TimePoint computed = ended ? ended->at : end;
  std::vector<TimedStage> stages;
  const auto add = [&stages](Stage stage, TimePoint from, TimePoint to) {
    stages.push_back({stage, from, std::max(from, to)});
  };
  if (parsed) add(Stage::kReceive, begun, parsed->at);
  if (accepted) add(Stage::kPrepare, accepted->at, accepted->at + accepted->took);
  if (submitted) add(Stage::kQueue, submitted->at, runs ? runs->at : computed);
  if (runs) add(Stage::kPrefill, runs->at, first ? first->at : computed);
  if (first) add(Stage::kDecode, first->at, computed);
  if (ended && FindEvent(events, Kind::kWritten)) add(Stage::kWrite, ended->at, end);
  return stages;
}

TraceContext RequestTrace::HopContext() const {
  if (!head_.context.valid()) return head_.parent;
  TraceContext hop = head_.context;
  hop.span_id = ChildSpanId(hop.span_id, kHopSpan);
  return hop;
}

void RequestTraces::Sample(RequestTrace::Head* head) const {
  if (!ratio_) return;
  head->context = head->parent;
  if (!head->context.valid()) {
    head->context.trace_id = NewTraceId();
    head->context.sampled = InSample(head->context.trace_id, *ratio_);
  }
  head->context.span_id = NewSpanId();
}

std::shared_ptr<RequestTrace> RequestTraces::Begin(RequestTrace::Head head) {
  Sample(&head);
  auto trace = std::make_shared<RequestTrace>(std::move(head));
  std::shared_ptr<RequestTrace> dropped;  // freed without the lock
  const MutexLock lock(mutex_);
  if (kept_.size() >= kKept) {
    // Nobody but this list refers to the trace of a request that has ended.
    auto oldest = std::find_if(kept_.begin(), kept_.end(),
                               [](const auto& kept) { return OtherReferences(kept) == 0; });
    if (oldest == kept_.end()) oldest = kept_.begin();
    dropped = std::move(*oldest);
    dropped->kept_ = false;
    kept_.erase(oldest);
  }
  trace->kept_ = true;
  kept_.push_back(trace);
  if (!trace->head().context.sampled) return trace;
  if (awaiting_.size() < kMaxAwaiting) {
    trace->awaits_export_ = true;
    awaiting_.push_back(trace);
  } else {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
  return trace;
}

bool RequestTraces::HasEnded(const std::shared_ptr<RequestTrace>& trace) {
  if (OtherReferences(trace) == 0) return true;
  // A server may hold the request longer than its parts take, and the engine may end it after its
  // answer was written, because its client has left.
  const auto ends_with = [](std::span<const TraceEvent> events, TraceEvent::Kind kind) {
    return !events.empty() && events.back().kind == kind;
  };
  const std::span<const TraceEvent> server = trace->server().events();
  const std::span<const TraceEvent> engine = trace->engine().events();
  const bool written = ends_with(server, TraceEvent::Kind::kWritten);
  const bool ended = ends_with(engine, TraceEvent::Kind::kEnded);
  return (written && (ended || engine.empty())) || (ended && server.empty());
}

std::vector<std::shared_ptr<const RequestTrace>> RequestTraces::TakeEnded() {
  std::vector<std::shared_ptr<const RequestTrace>> ended;
  const MutexLock lock(mutex_);
  std::erase_if(awaiting_, [&](const std::shared_ptr<RequestTrace>& trace) {
    if (!HasEnded(trace)) return false;
    trace->awaits_export_ = false;
    ended.push_back(trace);
    return true;
  });
  return ended;
}

std::vector<std::shared_ptr<const RequestTrace>> RequestTraces::Find(std::string_view id) const {
  std::vector<std::shared_ptr<const RequestTrace>> found;
  const MutexLock lock(mutex_);
  for (const auto& trace : kept_) {
    if (trace->head().id == id) found.push_back(trace);
  }
  return found;
}

size_t RequestTraces::size() const {
  const MutexLock lock(mutex_);
  return kept_.size();
}

}  // namespace tutti::api
