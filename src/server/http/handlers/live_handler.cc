// GET /admin/state, GET /admin/events, GET /admin/requests/{id}: what the engines do now, and what
// a request went through (docs/live.md).
//
// The engines take a snapshot before their next step; until then the handler looks every 10 ms. It
// waits 500 ms at most, and then shows the last snapshots, which have their age. Texts are made on
// a helper thread. A watcher that has not read an event gets no other one before it has, and then
// the newest state.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/json/json_writer.h"
#include "protocol/live_state.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(10);
constexpr Duration kPatience = std::chrono::milliseconds(500);
// How soon a stream notices a drain, a revoked key and a reader that has caught up.
constexpr Duration kAttention = std::chrono::milliseconds(250);
constexpr int kMaxWatchers = 16;

// The metrics that the state repeats, under their own names. Sorted.
constexpr auto kMetrics = std::to_array<std::string_view>({
    "tutti_batch_line_attempts_total",
    "tutti_batch_lines_running",
    "tutti_batches_ended_total",
    "tutti_batches_open",
    "tutti_broker_connected",
    "tutti_cache_bytes",
    "tutti_cache_entries",
    "tutti_cache_lookups_total",
    "tutti_cache_tier_up",
    "tutti_encode_batch_seconds",
    "tutti_encode_waiting_items",
    "tutti_engine_busy_seconds_total",
    "tutti_engine_heartbeat_age_seconds",
    "tutti_inter_token_latency_seconds",
    "tutti_job_attempts_total",
    "tutti_jobs",
    "tutti_jobs_accepted_total",
    "tutti_kv_blocks",
    "tutti_kv_evicted_blocks_total",
    "tutti_kv_pinned_blocks",
    "tutti_kv_usage_ratio",
    "tutti_kv_window_blocks",
    "tutti_limits_shared",
    "tutti_load_level",
    "tutti_lora_adapters",
    "tutti_lost_requests_total",
    "tutti_memory_level",
    "tutti_memory_limit_bytes",
    "tutti_memory_models_bytes",
    "tutti_memory_resident_bytes",
    "tutti_model_loads_total",
    "tutti_model_pulls_running",
    "tutti_model_unloads_total",
    "tutti_model_waiting_requests",
    "tutti_models",
    "tutti_models_memory_budget_bytes",
    "tutti_models_memory_bytes",
    "tutti_mqtt_clients",
    "tutti_mqtt_messages_total",
    "tutti_mqtt_waiting_messages",
    "tutti_output_tokens_total",
    "tutti_predicted_wait_seconds",
    "tutti_preemptions_total",
    "tutti_prefix_disk_bytes",
    "tutti_prefix_disk_files",
    "tutti_prefix_hit_tokens_total",
    "tutti_prefix_queried_tokens_total",
    "tutti_prompt_tokens_total",
    "tutti_queue_oldest_seconds",
    "tutti_queue_requests",
    "tutti_queue_tokens",
    "tutti_queue_wait_seconds",
    "tutti_requests_cancelled_total",
    "tutti_requests_finished_total",
    "tutti_requests_in_flight",
    "tutti_requests_rejected_total",
    "tutti_running_sequences",
    "tutti_semantic_false_hit_rate",
    "tutti_spec_accepted_tokens_total",
    "tutti_spec_draft_tokens_total",
    "tutti_state_slots",
    "tutti_store_failed",
    "tutti_store_full",
    "tutti_streams_open",
    "tutti_time_to_first_token_seconds",
    "tutti_usage_rows_waiting",
    "tutti_waiting_sequences",
    "tutti_wasted_tokens_total",
    "tutti_workers",
    "tutti_workers_lost_total",
});
static_assert(std::is_sorted(kMetrics.begin(), kMetrics.end()));

void WriteSeries(const telemetry::MetricSamples::Series& series, bool histogram,
                 protocol::JsonWriter* json) {
  json->BeginObject().Key("labels").BeginObject();
  for (const auto& [name, value] : series.labels) json->Member(name, value);
  json->EndObject();
  if (!histogram) {
    json->Member("value", series.value).EndObject();
    return;
  }
  json->Member("count", static_cast<int64_t>(series.count)).Member("sum", series.value);
  json->Key("le").BeginArray();  // without the last bound, which is infinite
  for (const double bound : series.bounds) {
    if (std::isfinite(bound)) json->Double(bound);
  }
  json->EndArray().Key("at_most").BeginArray();
  for (size_t i = 0; i < series.bounds.size(); ++i) {
    if (std::isfinite(series.bounds[i])) json->Int(static_cast<int64_t>(series.at_most[i]));
  }
  json->EndArray().EndObject();
}

void WriteMetrics(const telemetry::MetricsRegistry& metrics, protocol::JsonWriter* json) {
  json->Key("metrics").BeginObject();
  for (const telemetry::MetricSamples& family : metrics.Sample(kMetrics)) {
    json->Key(family.name).BeginArray();
    for (const auto& series : family.series) WriteSeries(series, family.histogram, json);
    json->EndArray();
  }
  json->EndObject();
}

void WriteModels(const std::vector<api::ModelInfo>& models, protocol::JsonWriter* json) {
  json->Key("models").BeginArray();
  for (const api::ModelInfo& model : models) {
    json->BeginObject()
        .Member("id", model.id)
        .MemberOrNull("parent", model.parent)
        .Member("state", api::ModelStateName(model.status.state))
        .Member("pinned", model.status.pinned)
        .Member("memory_bytes", model.status.memory_bytes)
        .Member("expires_unix_s", model.status.expires_unix_s)
        .MemberOrNull("failure", model.status.failure)
        .EndObject();
  }
  json->EndArray();
}

void WriteErrors(const std::vector<telemetry::RecentError>& errors, protocol::JsonWriter* json) {
  json->Key("errors").BeginArray();
  for (const telemetry::RecentError& error : errors) {
    json->BeginObject()
        .Member("unix_ms", error.unix_ms)
        .MemberOrNull("request", error.request_id)
        .Member("route", error.route)
        .Member("status", error.status)
        .Member("code", error.code)
        .MemberOrNull("message", error.message)
        .EndObject();
  }
  json->EndArray();
}

// For each engine, when the last step began that this watcher has seen.
using SeenSteps = std::vector<std::pair<std::string, TimePoint>>;

// Removes the steps that were seen, and notes the others.
void KeepNewSteps(api::LiveState* state, SeenSteps* seen) {
  for (api::LiveEngine& engine : state->engines) {
    const std::string name = (engine.encoder ? "encoder " : "decoder ") + engine.model;
    auto known = std::find_if(seen->begin(), seen->end(),
                              [&](const auto& each) { return each.first == name; });
    if (known == seen->end()) known = seen->insert(known, {name, TimePoint::min()});
    std::erase_if(engine.steps, [&](const auto& step) { return step.begin <= known->second; });
    if (!engine.steps.empty()) known->second = engine.steps.back().begin;
  }
}

struct StateText {
  std::string json;
  SeenSteps seen;
};

// On a helper thread.
StateText WriteState(const ServerContext& context, SeenSteps seen) {
  const HttpServer::Dependencies& deps = context.deps;
  const TimePoint now = deps.clock->Now();
  StateText text;
  protocol::JsonWriter json(&text.json);
  json.BeginObject()
      .Member("object", "live.state")
      .Member("version", 1)
      .Member("unix_ms", UnixMillis())
      .Member("clock_ms", ToMillis(now.time_since_epoch()))
      .Member("server_version", context.options.version)
      .Member("draining", context.draining.load())
      .Member("connections", context.connections.load())
      .Member("active_requests", context.active.load())
      .Member("watchers", context.watchers.load())
      // A frontend's workers have the engines.
      .Member("engines_elsewhere", deps.live == nullptr);
  api::LiveState state = deps.live == nullptr ? api::LiveState() : deps.live->Read();
  KeepNewSteps(&state, &seen);
  protocol::WriteLiveState(state, now, &json);
  WriteModels(deps.inference->Models(), &json);
  WriteErrors(deps.errors == nullptr ? std::vector<telemetry::RecentError>() : deps.errors->Read(),
              &json);
  WriteMetrics(*deps.metrics, &json);
  json.EndObject();
  text.seen = std::move(seen);
  return text;
}

// Has a place among the watchers of a server.
class WatcherPlace {
 public:
  ~WatcherPlace() {
    if (watchers_ != nullptr) watchers_->fetch_sub(1);
  }
  bool Take(std::atomic<int>* watchers) {
    if (watchers->fetch_add(1) >= kMaxWatchers) {
      watchers->fetch_sub(1);
      return false;
    }
    watchers_ = watchers;
    return true;
  }

 private:
  std::atomic<int>* watchers_ = nullptr;
};

class LiveHandler final : public Handler {
 public:
  LiveHandler(RouteId route, Connection& connection)
      : route_(route),
        connection_(connection),
        context_(connection.context()),
        events_(connection) {}

  void Start() override {
    if (route_ == RouteId::kRequestTrace && Traces().empty()) {
      return connection_.RespondError(
          NotFound("not_found", "no trace of this request; the last " +
                                    std::to_string(api::RequestTraces::kKept) + " are kept"));
    }
    if (route_ == RouteId::kLiveEvents && !Open()) return;
    if (route_ == RouteId::kLiveEvents && connection_.request_context().decision().head_only)
      return events_.End();
    Ask(Now());
  }

  TimePoint Due() const override {
    return route_ == RouteId::kLiveEvents ? std::min(next_look_, events_.KeepAliveDue())
                                          : next_look_;
  }

  void OnTimer(TimePoint now) override {
    if (events_.begun()) {
      if (const Status over = Over(); !over.ok()) return End(over);
      events_.KeepAlive(now);
    }
    if (now < next_look_) return;
    next_look_ = now + kAttention;
    if (writing_) return;
    if (asking_) {
      if (HasSnapshots() || now >= asked_at_ + kPatience) return Write();
      context_.deps.live->Ask();  // the time for it may have come only now
      next_look_ = now + kPoll;
    } else if (now < next_event_) {
      next_look_ = std::min(next_look_, next_event_);
    } else if (connection_.unsent() == 0) {
      Ask(now);
    }
  }

 private:
  TimePoint Now() const { return connection_.loop()->clock().Now(); }

  std::vector<std::shared_ptr<const api::RequestTrace>> Traces() const {
    if (context_.deps.traces == nullptr) return {};
    return context_.deps.traces->Find(connection_.request_context().decision().argument);
  }

  // Begins the stream. False: it was refused.
  bool Open() {
    protocol::IgnoredFields ignored;
    const auto asked = ReadQuery(connection_, &protocol::ParseLiveQuery, &ignored);
    if (!asked.ok()) {
      connection_.RespondError(asked.status());
      return false;
    }
    if (!place_.Take(&context_.watchers)) {
      connection_.RespondError(
          Unavailable("overloaded", std::to_string(kMaxWatchers) +
                                        " watchers are connected, which is the limit; close one or "
                                        "poll /admin/state"));
      return false;
    }
    interval_ = asked->interval;
    events_.Open(context_.options.keepalive.value_or(std::chrono::seconds(15)), ignored.names());
    return true;
  }

  // Why the stream ends now.
  Status Over() const {
    if (context_.draining.load()) return Draining();
    const auth::PrincipalRef& who = connection_.request_context().decision().principal;
    if (who == nullptr) return OkStatus();
    return context_.deps.authority->StillValid(*who, std::time(nullptr));
  }

  void End(const Status& why) {
    next_look_ = TimePoint::max();
    events_.Show(
        "event: end\ndata: " +
        protocol::JsonWriter().BeginObject().Member("reason", why.reason()).EndObject().Take() +
        "\n\n");
    events_.End();
  }

  void Ask(TimePoint now) {
    asking_ = true;
    asked_at_ = now;
    next_event_ = now + interval_;
    next_look_ = now + kPoll;
    if (context_.deps.live != nullptr) context_.deps.live->Ask();
    connection_.Reschedule();
  }

  bool HasSnapshots() const {
    return context_.deps.live == nullptr || context_.deps.live->TakenSince(asked_at_);
  }

  void Write() {
    asking_ = false;
    writing_ = true;
    if (route_ == RouteId::kRequestTrace) {
      return OnHelper(
          connection_, context_.json_helper,
          [id = connection_.request_context().decision().argument, traces = Traces(),
           live = context_.deps.live, clock = context_.deps.clock] {
            const api::LiveState steps = live == nullptr ? api::LiveState() : live->Read();
            return protocol::TraceBody(id, traces, steps, clock->Now());
          },
          [this](std::string body) { Respond(std::move(body)); });
    }
    OnHelper(
        connection_, context_.json_helper,
        [context = &context_, seen = seen_] { return WriteState(*context, seen); },
        [this](StateText text) { OnState(std::move(text)); });
  }

  void OnState(StateText text) {
    writing_ = false;
    if (route_ == RouteId::kLiveState) return Respond(std::move(text.json));
    seen_ = std::move(text.seen);
    events_.Show("id: " + std::to_string(++event_) + "\nevent: state\ndata: " + text.json + "\n\n");
    next_look_ = std::min(next_event_, Now() + kAttention);
    connection_.Reschedule();
  }

  void Respond(std::string body) {
    next_look_ = TimePoint::max();
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        std::move(body));
  }

  const RouteId route_;
  Connection& connection_;
  ServerContext& context_;
  EventStream events_;
  WatcherPlace place_;
  Duration interval_{0};
  SeenSteps seen_;
  uint64_t event_ = 0;
  bool asking_ = false;   // the engines' snapshots are awaited
  bool writing_ = false;  // a helper writes the text
  TimePoint asked_at_{}, next_event_{};
  TimePoint next_look_ = TimePoint::max();
};

}  // namespace

std::unique_ptr<Handler> MakeLiveHandler(RouteId route, Connection& connection) {
  return std::make_unique<LiveHandler>(route, connection);
}

}  // namespace tutti::http
