#include "services/jobs/control.h"

#include <functional>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/control.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/jobs/job_rows.h"
#include "services/jobs/jobs.h"

namespace tutti::jobs {
namespace {

using protocol::BadControl;
using protocol::Json;
using protocol::JsonObject;
using protocol::JsonWriter;
using store::Database;

constexpr size_t kMaxRequestBytes = 4096, kMaxValues = 16;
constexpr int64_t kMaxListed = 1000;
constexpr int64_t kDayMs = 86'400'000;

Status List(store::Store& store, const JsonObject& asked, JsonWriter* json) {
  ASSIGN_OR_RETURN(const std::optional<std::string> tenant,
                   protocol::OptionalText(asked, "tenant"));
  ASSIGN_OR_RETURN(const std::optional<std::string> status,
                   protocol::OptionalText(asked, "status"));
  JobQuery query;
  if (status.has_value()) {
    const auto states = protocol::StatesNamed(*status);
    if (states.empty()) {
      return BadControl("status",
                        "status must be one of queued, running, completed, failed, cancelled, "
                        "expired");
    }
    query.states.assign(states.begin(), states.end());
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> after, protocol::OptionalText(asked, "after"));
  query.after = after.value_or("");
  if (const Json* limit = asked.if_contains("limit"); limit != nullptr) {
    ASSIGN_OR_RETURN(query.limit, protocol::ControlNumber(*limit, "limit", 1, kMaxListed,
                                                          "a whole number from 1 to 1000"));
  }
  const int64_t most = query.limit++;
  std::vector<JobRow> rows;
  std::vector<std::string> paused;
  const Status read = store.ReadNow([&](Database& database) -> Status {
    ASSIGN_OR_RETURN(rows, ListJobs(database, tenant, query));
    ASSIGN_OR_RETURN(paused, PausedOwners(database));
    return OkStatus();
  });
  if (!read.ok()) return read;
  const bool more = static_cast<int64_t>(rows.size()) > most;
  if (more) rows.resize(static_cast<size_t>(most));
  json->Key("jobs").BeginArray();
  for (const JobRow& row : rows) {
    json->BeginObject().Member("id", row.id).Member("tenant", row.owner).Member("kind", row.kind);
    json->Member("status", protocol::JobStateName(row.state)).Member("attempt", row.attempt);
    json->Member("progress_tokens", row.progress).Member("created_ms", row.created_ms);
    json->Member("started_ms", row.started_ms).Member("finished_ms", row.finished_ms);
    json->Member("dead_letter", row.state == JobState::kDead);
    json->Key("error").Raw(row.error.empty() ? "null" : row.error).EndObject();
  }
  json->EndArray().Member("more", more).Key("paused").BeginArray();
  for (const std::string& owner : paused) json->String(owner);
  json->EndArray();
  return OkStatus();
}

// Waits for the result of an asynchronous call.
template <typename T>
Result<T> WaitFor(const std::function<void(std::function<void(Result<T>)>)>& call) {
  std::promise<Result<T>> answer;
  call([&answer](Result<T> result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

Status One(store::Store& store, Jobs* running, std::string_view op, const std::string& id,
           int64_t now_ms, JsonWriter* json) {
  std::string owner;
  const Status known = store.ReadNow([&](Database& rows) -> Status {
    ASSIGN_OR_RETURN(const std::optional<std::string> found, OwnerOf(rows, id));
    if (!found.has_value()) return NotFound("not_found", "there is no such job");
    owner = *found;
    return OkStatus();
  });
  if (!known.ok()) return known;
  if (running != nullptr) {
    Result<protocol::JobView> job = WaitFor<protocol::JobView>([&](Jobs::Callback done) {
      if (op == "jobs.cancel") return running->Cancel(owner, id, std::move(done));
      if (op == "jobs.replay") return running->Replay(owner, id, std::move(done));
      running->Get(owner, id, std::move(done));
    });
    if (!job.ok()) return job.status();
    json->Key("job").Raw(protocol::JobJson(*job)).Member("tenant", owner);
    return OkStatus();
  }
  // No server runs jobs on this store: jobs that an earlier process had claimed become queued again
  // at the next start.
  JobRow row;
  const Status changed = store.WriteNow([&](Database& rows) -> Status {
    const JobLimits limits;
    if (op == "jobs.cancel") {
      RETURN_IF_ERROR(SweepLeases(rows, now_ms, /*all=*/true, limits).status());
      RETURN_IF_ERROR(CancelQueued(rows, owner, id, now_ms, limits).status());
    } else if (op == "jobs.replay") {
      RETURN_IF_ERROR(ReplayJob(rows, owner, id, now_ms + kDayMs).status());
    }
    ASSIGN_OR_RETURN(const std::optional<JobRow> found, LoadJob(rows, owner, id));
    if (!found.has_value()) return NotFound("not_found", "there is no such job");
    row = *found;
    const bool done = op == "jobs.cancel"   ? row.state == JobState::kCancelled
                      : op == "jobs.replay" ? row.state == JobState::kQueued
                                            : true;
    if (done) return OkStatus();
    return Status(StatusCode::kAborted, "already_finished",
                  "the job is " + std::string(protocol::JobStateName(row.state)));
  });
  if (!changed.ok()) return changed;
  json->Key("job").Raw(protocol::JobJson(ViewOf(row))).Member("tenant", owner);
  return OkStatus();
}

Status Pause(store::Store& store, Jobs* running, const std::string& owner, bool paused) {
  if (running == nullptr) {
    return store.WriteNow([&](Database& rows) { return PauseOwner(rows, owner, paused); });
  }
  std::promise<Status> answer;
  running->Pause(owner, paused, [&answer](Status status) { answer.set_value(std::move(status)); });
  return answer.get_future().get();
}

}  // namespace

bool IsJobsRequest(std::string_view request) { return protocol::HasOperation(request, "jobs."); }

Result<std::string> HandleControl(store::Store& store, Jobs* running, std::string_view request,
                                  int64_t now_ms) {
  return protocol::AnswerControl(
      request, kMaxRequestBytes, kMaxValues,
      [&](const JsonObject& asked, JsonWriter* json) -> Status {
        const std::string_view op = protocol::ControlOperation(asked);
        if (op == "jobs.list") return List(store, asked, json);
        if (op == "jobs.pause" || op == "jobs.resume") {
          ASSIGN_OR_RETURN(const std::string tenant, protocol::RequiredText(asked, "tenant"));
          return Pause(store, running, tenant, op == "jobs.pause");
        }
        if (op == "jobs.show" || op == "jobs.cancel" || op == "jobs.replay") {
          ASSIGN_OR_RETURN(const std::string id, protocol::RequiredText(asked, "id"));
          return One(store, running, op, id, now_ms, json);
        }
        return BadControl("op",
                          "is none of jobs: jobs.list, jobs.show, jobs.cancel, jobs.replay, "
                          "jobs.pause, jobs.resume");
      });
}

}  // namespace tutti::jobs
