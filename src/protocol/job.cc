#include "protocol/job.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "protocol/error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

constexpr std::array kStates = {JobState::kQueued,    JobState::kRunning, JobState::kSucceeded,
                                JobState::kCancelled, JobState::kExpired, JobState::kFailed,
                                JobState::kDead};  // of one word side by side

void WriteJob(const JobView& job, JsonWriter* json) {
  json->BeginObject().Member("id", job.id).Member("object", "job");
  json->Member("status", JobStateName(job.state)).Member("kind", job.kind);
  if (job.position.has_value()) json->Member("position", *job.position);
  if (job.eta_ms.has_value()) json->Member("eta_ms", *job.eta_ms);
  if (job.paused) json->Member("paused", true);
  json->Member("attempt", job.attempt).Member("max_attempts", job.max_attempts);
  if (job.state == JobState::kDead) json->Member("dead_letter", true);
  WriteMoment("created_at", job.created_ms, json);
  if (job.run_at_ms > job.created_ms) WriteMoment("run_at", job.run_at_ms, json);
  WriteMoment("started_at", job.started_ms, json);
  WriteMoment("finished_at", job.finished_ms, json);
  WriteMoment("deadline", job.deadline_ms, json);
  WriteMoment("expires_at", job.expires_ms, json);
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
  static constexpr std::array<std::string_view, 7> kNames = {
      "queued", "running", "completed", "failed", "cancelled", "expired", "failed"};
  return kNames[static_cast<size_t>(state)];
}

std::span<const JobState> StatesNamed(std::string_view word) {
  const auto is = [word](JobState state) { return JobStateName(state) == word; };
  const auto* first = std::find_if(kStates.begin(), kStates.end(), is);
  return {first, std::find_if_not(first, kStates.end(), is)};
}

std::string JobJson(const JobView& job) {
  JsonWriter json;
  WriteJob(job, &json);
  return json.Take();
}

std::string JobEventType(const JobView& job) {
  return "job." + std::string(JobStateName(job.state));
}

std::string JobEvent(const JobView& job) {
  JsonWriter json;
  json.BeginObject().Member("type", JobEventType(job)).Member("sequence_number", job.version);
  json.Key("job");
  WriteJob(job, &json);
  json.EndObject();
  return json.Take();
}

std::string JobListJson(std::span<const JobView> jobs, bool more) {
  return PageJson(jobs, more, WriteJob);
}

std::string JobErrorJson(const Status& status) {
  const ErrorView view = ViewError(status);
  JsonWriter json;
  json.BeginObject().Member("code", view.code).Member("message", view.message);
  json.MemberOrNull("param", view.param).EndObject();
  return json.Take();
}

Status JobErrorOf(std::string_view text) {
  const Result<JsonDocument> document = ParseJson(text);
  const auto member = [&](std::string_view name) -> std::string {
    return document.ok() ? std::string(TextMember(document->root(), name)) : "";
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
  for (const std::string_view part : SplitAt(field, ',')) {
    const std::string_view token =
        Trimmed(part.substr(0, part.find(';')));  // parameters have no meaning here
    const size_t equals = token.find('=');
    const std::string name = AsciiLower(Trimmed(token.substr(0, equals)));
    if (name == "respond-async") preference.respond_async = true;
    if (name != "wait" || equals == std::string_view::npos || preference.wait.has_value()) continue;
    if (const auto seconds = ParseNumber<uint32_t>(Trimmed(token.substr(equals + 1))))
      preference.wait = std::chrono::seconds(*seconds);
  }
  return preference;
}

}  // namespace tutti::protocol
