#include "server/http/handlers/live_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "protocol/json/json_writer.h"
#include "protocol/live_state.h"
#include "telemetry/recent_errors.h"

namespace tutti::http {
namespace {

// The metrics that the state repeats, under their own names. Sorted.
constexpr auto kRepeatedMetrics = std::to_array<std::string_view>({
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
static_assert(std::is_sorted(kRepeatedMetrics.begin(), kRepeatedMetrics.end()));

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
  for (const telemetry::MetricSamples& family : metrics.Sample(kRepeatedMetrics)) {
    json->Key(family.name).BeginArray();
    for (const auto& series : family.series) WriteSeries(series, family.histogram, json);
    json->EndArray();
  }
  json->EndObject();
}

void WriteModels(const api::ModelList& models, protocol::JsonWriter* json) {
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

}  // namespace

LiveText WriteLiveText(const ServerContext& context, SeenSteps seen) {
  const HttpServer::Dependencies& deps = context.deps;
  const TimePoint now = deps.clock->Now();
  LiveText text;
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
      .Member("watchers", context.watchers.load());
  api::LiveState state = deps.live == nullptr ? api::LiveState() : deps.live->Read();
  context.chat_clients.List(&state);
  KeepNewSteps(&state, &seen);
  json.Member("engines_elsewhere", deps.live == nullptr || state.engines_elsewhere);
  protocol::WriteLiveState(state, now, &json);
  WriteModels(deps.inference->Models(), &json);
  WriteErrors(deps.errors == nullptr ? std::vector<telemetry::RecentError>() : deps.errors->Read(),
              &json);
  WriteMetrics(*deps.metrics, &json);
  json.EndObject();
  text.seen = std::move(seen);
  return text;
}

}  // namespace tutti::http
