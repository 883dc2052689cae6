#include "protocol/job.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/ascii.h"
#include "protocol/error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/page_json.h"

namespace tutti::protocol {
namespace {

constexpr std::array kStates = {JobState::kQueued,    JobState::kRunning, JobState::kSucceeded,
                                JobState::kCancelled, JobState::kExpired, JobState::kFailed,
                                JobState::kDead};  // of one word side by side

void WriteSeconds(std::string_view key, int64_t unix_ms, JsonWriter* json) {
  if (unix_ms == 0) {
    json->Member(key, nullptr);
  } else {
    json->Member(key, unix_ms / 1000);
  }
}

void WriteJob(const JobView& job, JsonWriter* json) {
  json->BeginObject().Member("id", job.id).Member("object", "job");
  json->Member("status", JobStateName(job.state)).Member("kind", job.kind);
  if (job.position.has_value()) json->Member("position", *job.position);
  if (job.eta_ms.has_value()) json->Member("eta_ms", *job.eta_ms);
  if (job.paused) json->Member("paused", true);
  json->Member("attempt", job.attempt).Member("max_attempts", job.max_attempts);
  if (job.state == JobState::kDead) json->Member("dead_letter", true);
  WriteSeconds("created_at", job.created_ms, json);
  if (job.run_at_ms > job.created_ms) WriteSeconds("run_at", job.run_at_ms, json);
  WriteSeconds("started_at", job.started_ms, json);
  WriteSeconds("finished_at", job.finished_ms, json);
  WriteSeconds("deadline", job.deadline_ms, json);
  WriteSeconds("expires_at", job.expires_ms, json);
  json->Key("progress").BeginObject().Member("tokens", job.progress_tokens).EndObject();
  json->Key("result").Raw(job.result.empty() ? "null" : job.result);
  json->Key("error").Raw(job.error.empty() ? "null" : job.error);
  const std::string self = "/v1/jobs/" + job.id;
  if (!job.webhook.status.empty()) {
    json->Key("webhook").BeginObject().Member("status", job.webhook.status);
    json->Member("attempts", job.webhook.attempts);
    if (!job.webhook.error.empty()) json->Member("error", job.webhook.error);
    json->EndObject();
  }
  json->Key("links").BeginObject().Member("self", self);
  json->Member("events", self + "/events").Member("ws", "/v1/ws?job=" + job.id);
  json->Member("cancel", self + "/cancel").EndObject();
  json->EndObject();
}

}  // namespace

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kRunning:
      return "running";
    case JobState::kSucceeded:
      return "completed";
    case JobState::kFailed:
    case JobState::kDead:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
    case JobState::kExpired:
      return "expired";
  }
  return "failed";
}

std::span<const JobState> StatesNamed(std::string_view word) {
  const auto is = [word](JobState state) { return JobStateName(state) == word; };
  const auto* first = std::find_if(kStates.begin(), kStates.end(), is);
  return {first, std::find_if_not(first, kStates.end(), is)};
}

std::string JobJson(const JobView& job) {
  std::string out;
  JsonWriter json(&out);
  WriteJob(job, &json);
  return out;
}

std::string JobEventType(const JobView& job) {
  return "job." + std::string(JobStateName(job.state));
}

std::string JobEvent(const JobView& job) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("type", JobEventType(job)).Member("sequence_number", job.version);
  json.Key("job");
  WriteJob(job, &json);
  json.EndObject();
  return out;
}

std::string JobListJson(std::span<const JobView> jobs, bool more) {
  return PageJson(jobs, more, WriteJob);
}

std::string JobErrorJson(const Status& status) {
  const ErrorView view = ViewError(status);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("code", view.code).Member("message", view.message);
  if (view.param.empty()) {
    json.Member("param", nullptr);
  } else {
    json.Member("param", view.param);
  }
  json.EndObject();
  return out;
}

Status JobErrorOf(std::string_view text) {
  const Result<JsonDocument> document = ParseJson(text);
  const JsonObject* const object = document.ok() ? document->root().if_object() : nullptr;
  const auto member = [&](std::string_view name) -> std::string {
    const Json* value = object == nullptr ? nullptr : object->if_contains(name);
    return value != nullptr && value->is_string() ? std::string(TextOf(*value)) : "";
  };
  const std::string code = member("code");
  constexpr std::string_view kUnlisted = "internal_error";
  const ErrorRow& row = FindError(Status(StatusCode::kInternal, code, ""));
  if (row.code != kUnlisted || code == kUnlisted)
    return Status(row.canonical, code, member("message")).WithParam(member("param"));
  return Internal("a job failed of what cannot be read");
}

Preference ReadPrefer(std::string_view field) {
  Preference preference;
  while (!field.empty()) {
    const size_t comma = std::min(field.find(','), field.size());
    std::string_view token = field.substr(0, comma);
    field.remove_prefix(std::min(comma + 1, field.size()));
    token = Trimmed(token.substr(0, token.find(';')));  // parameters have no meaning here
    const size_t equals = token.find('=');
    const std::string name = AsciiLower(Trimmed(token.substr(0, equals)));
    if (name == "respond-async") preference.respond_async = true;
    if (name != "wait" || equals == std::string_view::npos || preference.wait.has_value()) continue;
    const std::string_view digits = Trimmed(token.substr(equals + 1));
    uint32_t seconds = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
    if (error == std::errc() && end == digits.data() + digits.size())
      preference.wait = std::chrono::seconds(seconds);
  }
  return preference;
}

}  // namespace tutti::protocol
