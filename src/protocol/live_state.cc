#include "protocol/live_state.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/types.h"

namespace tutti::protocol {
namespace {

using api::LiveEngine;
using api::LiveSequence;
using api::LiveStep;
using api::RequestTrace;
using api::TraceEvent;
using api::WaitReason;

std::string_view PriorityName(api::Priority priority) {
  constexpr std::string_view kNames[] = {"interactive", "flex", "batch"};
  return kNames[static_cast<size_t>(priority)];
}

double MillisOf(TimePoint at) { return ToMillis(at.time_since_epoch()); }

void WriteSequence(const LiveSequence& row, bool encoder, JsonWriter* json) {
  json->BeginObject()
      .Member("request", row.request.view())
      .Member("tenant", row.tenant.view())
      .MemberOrNull("caller", row.caller.view())
      .Member("phase", api::LivePhaseName(row.phase))
      .Member("priority", PriorityName(row.priority))
      .Member("age_ms", ToMillis(row.age));
  if (row.waits_for == WaitReason::kNone) {
    json->Member("waits_for", nullptr);
  } else {
    json->Member("waits_for", api::WaitReasonName(row.waits_for))
        .Member("waited_ms", ToMillis(row.waited));
  }
  json->Member("prompt_tokens", row.prompt_tokens).Member("computed_tokens", row.computed_tokens);
  if (encoder) {
    json->Member("items", row.items).Member("items_left", row.items_left);
  } else {
    json->Member("choice", row.choice)
        .Member("cached_tokens", row.cached_tokens)
        .Member("output_tokens", row.output_tokens)
        .Member("max_tokens", row.max_tokens)
        .Member("blocks", row.blocks)
        .Member("preemptions", row.preemptions);
  }
  json->EndObject();
}

// `begin_ms`: where the step began, on the reader's scale.
void WriteStep(const LiveStep& step, double begin_ms, JsonWriter* json) {
  json->BeginObject()
      .Member("step", static_cast<int64_t>(step.step))
      .Member("begin_ms", begin_ms)
      .Member("plan_ms", ToMillis(step.plan))
      .Member("launch_ms", ToMillis(step.launch))
      .Member("collect_ms", ToMillis(step.collect))
      .Member("commit_ms", ToMillis(step.commit))
      .Member("forward_ms", ToMillis(step.forward))
      .Member("decode_rows", step.decode_rows)
      .Member("prefill_rows", step.prefill_rows)
      .Member("prefill_tokens", step.prefill_tokens)
      .Member("draft_tokens", step.draft_tokens)
      .Member("output_tokens", step.output_tokens);
  if (step.failed) json->Member("failed", true);
  if (step.aborted) json->Member("aborted", true);
  json->EndObject();
}

void WriteEngine(const LiveEngine& engine, TimePoint now, JsonWriter* json) {
  json->BeginObject()
      .Member("model", engine.model)
      .Member("kind", engine.encoder ? "encoder" : "decoder")
      .Member("age_ms", ToMillis(now - engine.taken))
      .Member("running", engine.running)
      .Member("waiting", engine.waiting)
      .Member("paused", engine.paused)
      .Member("preparing", engine.preparing)
      .Member("waiting_tokens", engine.waiting_tokens)
      .Member("prompt_tokens_per_s", engine.prompt_tokens_per_s);
  if (!engine.encoder) {
    json->Member("max_num_seqs", engine.max_num_seqs)
        .Member("output_tokens_per_s", engine.output_tokens_per_s);
  }
  json->Member("busy_share", engine.busy_share);
  json->Key("waits").BeginObject();
  for (size_t i = 0; i < engine.reasons.size(); ++i) {
    if (engine.reasons[i] > 0)
      json->Member(api::WaitReasonName(static_cast<WaitReason>(i)), engine.reasons[i]);
  }
  json->EndObject();
  json->Key("sequences").BeginArray();
  for (const LiveSequence& row : engine.sequences) WriteSequence(row, engine.encoder, json);
  json->EndArray();
  json->Member("sequences_left_out", engine.left_out);
  if (!engine.encoder) {
    json->Key("kv")
        .BeginObject()
        .Member("block_tokens", kBlockTokens)
        .Member("blocks", engine.kv_blocks)
        .Member("free", engine.kv_free)
        .Member("cached", engine.kv_cached)
        .Member("used", engine.kv_used)
        .Member("shared", engine.kv_shared)
        .Member("pinned", engine.kv_pinned)
        .Member("cell_blocks", engine.kv_cell_blocks)
        .Member("map", engine.kv_map)
        .EndObject();
  }
  json->Member("steps_total", static_cast<int64_t>(engine.steps_total));
  json->Key("steps").BeginArray();
  for (const LiveStep& step : engine.steps) WriteStep(step, MillisOf(step.begin), json);
  json->EndArray().EndObject();
}

// --- clients, sessions, workers ---

constexpr size_t kMaxShownSessions = 64;

// `sessions`: of this user, which are being answered.
void WriteClient(const api::LiveClient& client, int64_t sessions, TimePoint now, JsonWriter* json) {
  json->BeginObject()
      .Member("protocol", api::LiveProtocolName(client.protocol))
      .MemberOrNull("client_id", client.client_id)
      .Member("tenant", client.tenant)
      .Member("user", client.user)
      .Member("connected_ms", ToMillis(now - client.since))
      .Member("sessions", sessions);
  if (client.protocol != api::LiveClient::Protocol::kWebSocket)
    json->Member("subscriptions", client.subscriptions);
  json->EndObject();
}

void WriteClients(const api::LiveState& state, TimePoint now, JsonWriter* json) {
  json->Key("clients").BeginArray();
  for (const api::LiveClient& client : state.clients) {
    const auto sessions =
        std::count_if(state.sessions.begin(), state.sessions.end(), [&](const auto& session) {
          return !client.user.empty() && session.user == client.user &&
                 session.tenant == client.tenant;
        });
    WriteClient(client, sessions, now, json);
  }
  json->EndArray().Member("clients_left_out", state.clients_left_out);
}

void WriteSessions(const api::LiveState& state, JsonWriter* json) {
  const size_t shown = std::min(state.sessions.size(), kMaxShownSessions);
  json->Key("sessions").BeginArray();
  for (size_t i = 0; i < shown; ++i) {
    const api::LiveSession& session = state.sessions[i];
    json->BeginObject()
        .Member("session", session.session)
        .MemberOrNull("project", session.project)
        .Member("tenant", session.tenant)
        .MemberOrNull("user", session.user)
        .Member("state", session.running > 0 ? "running" : "waiting")
        .Member("running", session.running)
        .Member("waiting", session.waiting)
        .MemberOrNull("response", session.response)
        .EndObject();
  }
  json->EndArray().Member("sessions_left_out", state.sessions_left_out +
                                                   static_cast<int>(state.sessions.size() - shown));
}

void WriteWorkers(const api::LiveState& state, JsonWriter* json) {
  json->Key("workers").BeginArray();
  for (const api::LiveWorker& worker : state.workers) {
    json->BeginObject()
        .Member("name", worker.name)
        .Member("state", worker.draining ? "draining" : "serving")
        .Key("models")
        .BeginArray();
    for (const std::string& model : worker.models) json->String(model);
    json->EndArray()
        .Member("models_left_out", worker.models_left_out)
        .Member("in_flight", worker.in_flight)
        .Member("running", worker.running)
        .Member("waiting", worker.waiting)
        .Member("max_num_seqs", worker.max_num_seqs)
        .Member("silent_ms", ToMillis(worker.silent))
        .EndObject();
  }
  json->EndArray().Member("workers_left_out", state.workers_left_out);
}

void WriteLimits(const api::LiveState& state, JsonWriter* json) {
  json->Key("limits").BeginArray();
  for (const api::LiveLimits& subject : state.limits) {
    json->BeginObject().Member("of", subject.of).Member("name", subject.name);
    json->Key("limits").BeginArray();
    for (const api::LiveLimits::Limit& limit : subject.limits) {
      json->BeginObject()
          .Member("limit", limit.name)
          .Member("max", limit.state.limit)
          .Member("remaining", limit.state.remaining)
          .Member("reset_s", ToSeconds(limit.state.reset))
          .EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray();
}

// --- traces ---

bool IsEngineEvent(TraceEvent::Kind kind) {
  return kind >= TraceEvent::Kind::kAccepted && kind <= TraceEvent::Kind::kEnded;
}

void WriteEvent(const TraceEvent& event, TimePoint from, JsonWriter* json) {
  using Kind = TraceEvent::Kind;
  json->BeginObject()
      .Member("at_ms", ToMillis(event.at - from))
      .Member("event", api::TraceEventName(event.kind));
  if (event.kind == Kind::kWaits) json->Member("reason", api::WaitReasonName(event.reason));
  if (event.took.count() > 0) json->Member("took_ms", ToMillis(event.took));
  switch (event.kind) {
    case Kind::kWritten:
      json->Member("status", event.tokens);
      break;
    case Kind::kRuns:
      json->Member("cached_tokens", event.tokens);
      break;
    case Kind::kWaits:
      if (event.reason == WaitReason::kPreempted) json->Member("lost_tokens", event.tokens);
      break;
    case Kind::kSubmitted:
    case Kind::kPrefill:
    case Kind::kEnded:
      json->Member("tokens", event.tokens);
      break;
    default:
      break;
  }
  if (event.step > 0) json->Member("step", static_cast<int64_t>(event.step));
  if (event.choice > 0) json->Member("choice", event.choice);
  json->EndObject();
}

// Durations of the stages that the request has reached. Their sum is the total: what no stage has,
// such as the load of the model, is `other_ms`.
void WriteStages(std::span<const TraceEvent> events, TimePoint from, TimePoint now,
                 JsonWriter* json) {
  constexpr const char* kMembers[] = {"receive_ms", "prepare_ms", "queue_ms",
                                      "prefill_ms", "decode_ms",  "write_ms"};
  const TimePoint end = std::max(from, api::EndTimeOf(events).value_or(now));
  Duration in_stages{0};
  json->Key("stages").BeginObject();
  for (const api::TimedStage& stage : api::StagesOf(events, from, end)) {
    in_stages += stage.end - stage.begin;
    json->Member(kMembers[static_cast<size_t>(stage.stage)], ToMillis(stage.end - stage.begin));
  }
  json->Member("other_ms", std::max(ToMillis(end - from - in_stages), 0.0));
  json->Member("total_ms", ToMillis(end - from)).EndObject();
}

// How a request ended; empty: it has not, or nobody knows. One that came to no engine of this
// process (cached, refused, its client left first) has the status of its answer alone.
std::string_view EndOf(const RequestTrace& trace, bool ended,
                       const std::optional<TraceEvent>& written) {
  constexpr int kClientLeft = 499, kFirstError = 400;
  if (ended) return trace.end();
  if (!written) return "";
  if (written->tokens == kClientLeft) return "cancelled";
  return written->tokens < kFirstError ? "ok" : "failed";
}

void WriteWaits(const RequestTrace& trace, std::span<const TraceEvent> engine, TimePoint now,
                JsonWriter* json) {
  // The last event of a request that waits now.
  const bool waits = !engine.empty() && engine.back().kind == TraceEvent::Kind::kWaits;
  json->Key("waits").BeginArray();
  for (size_t i = 1; i < api::kWaitReasons; ++i) {
    const auto reason = static_cast<WaitReason>(i);
    Duration took = trace.waited(reason);
    const bool current = waits && engine.back().reason == reason;
    if (current) took += now - engine.back().at;
    if (took.count() == 0) continue;
    json->BeginObject()
        .Member("reason", api::WaitReasonName(reason))
        .Member("ms", ToMillis(took))
        .Member("now", current)
        .EndObject();
  }
  json->EndArray();
}

void WriteSteps(const RequestTrace& trace, const api::LiveState& state, TimePoint from,
                JsonWriter* json) {
  const std::vector<uint64_t> numbers = trace.LastSteps();
  json->Key("steps").BeginObject().Member("count", static_cast<int64_t>(trace.steps()));
  if (trace.longest_gap().count() > 0) {
    json->Member("longest_gap_ms", ToMillis(trace.longest_gap()))
        .Member("longest_gap_step", static_cast<int64_t>(trace.longest_gap_step()));
  }
  json->Key("last").BeginArray();
  const std::string model = trace.model();
  for (const LiveEngine& engine : state.engines) {
    if (engine.model != model) continue;
    for (const LiveStep& step : engine.steps) {
      // A model that was loaded again counts its steps from 1.
      if (step.begin < from || !std::binary_search(numbers.begin(), numbers.end(), step.step))
        continue;
      WriteStep(step, ToMillis(step.begin - from), json);
    }
  }
  json->EndArray().EndObject();
}

void WriteTrace(const RequestTrace& trace, const api::LiveState& steps, TimePoint now,
                JsonWriter* json) {
  const TimePoint from = trace.head().begun_at;
  const std::span<const TraceEvent> engine = trace.engine().events();
  const std::vector<TraceEvent> events = api::EventsByTime(trace);
  const bool ended = api::FindEvent(engine, TraceEvent::Kind::kEnded).has_value();
  const auto written = api::FindEvent(events, TraceEvent::Kind::kWritten);
  json->BeginObject()
      .MemberOrNull("route", trace.head().route)
      .MemberOrNull("tenant", trace.head().tenant)
      .MemberOrNull("caller", trace.head().caller)
      .MemberOrNull("model", trace.model())
      .MemberOrNull("worker", trace.worker())
      .MemberOrNull("trace_id", trace.head().context.valid() ? ToHex(trace.head().context.trace_id)
                                                             : std::string())
      .Member("begun_unix_ms", trace.head().begun_unix_ns / 1'000'000)
      .Member("state", ended || written ? "ended" : "running")
      .MemberOrNull("end", EndOf(trace, ended, written))
      .MemberOrNull("status", written ? std::optional<int>(written->tokens) : std::nullopt)
      // Without such an event no engine of this process has seen it: another process, a cache, or a
      // refusal answered it.
      .Member("in_engine", std::any_of(events.begin(), events.end(), [](const TraceEvent& event) {
                return IsEngineEvent(event.kind);
              }));
  WriteStages(events, from, now, json);
  WriteWaits(trace, engine, now, json);
  json->Key("events").BeginArray();
  for (const TraceEvent& event : events) WriteEvent(event, from, json);
  json->EndArray();
  json->Member("events_left_out",
               trace.server().dropped() + trace.engine().dropped() + trace.hop().dropped());
  WriteSteps(trace, steps, from, json);
  json->EndObject();
}

}  // namespace

void WriteLiveState(const api::LiveState& state, TimePoint now, JsonWriter* json) {
  json->Key("engines").BeginArray();
  for (const LiveEngine& engine : state.engines) WriteEngine(engine, now, json);
  json->EndArray();
  json->Member("preparing", state.preparing);
  json->Member("model_waits_total", state.model_waits_total);
  json->Key("model_waits").BeginArray();
  for (const api::LiveModelWait& wait : state.model_waits) {
    json->BeginObject()
        .MemberOrNull("request", wait.request)
        .Member("model", wait.model)
        .Member("waited_ms", ToMillis(wait.waited))
        .EndObject();
  }
  json->EndArray();
  WriteClients(state, now, json);
  WriteSessions(state, json);
  WriteWorkers(state, json);
  WriteLimits(state, json);
}

std::string TraceBody(std::string_view id,
                      std::span<const std::shared_ptr<const RequestTrace>> traces,
                      const api::LiveState& steps, TimePoint now) {
  JsonWriter json;
  json.BeginObject().Member("object", "request.trace").Member("version", 1).Member("id", id);
  json.Key("traces").BeginArray();
  for (const auto& trace : traces) WriteTrace(*trace, steps, now, &json);
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
