#include "services/jobs/job_rows.h"

#include <algorithm>
#include <utility>

#include "services/background/queue_runner.h"
#include "services/background/retry.h"
#include "services/idempotency/keys.h"
#include "services/jobs/job_id.h"
#include "services/webhooks/webhook_rows.h"

namespace tutti::jobs {
namespace {

using store::Blob;
using store::Database;
using store::Statement;

constexpr int64_t kOwnersAtOnce = 64;
constexpr int64_t kTombstoneMs =
    int64_t{24} * 3'600'000;  // time for which an id without a result is kept

int64_t Number(JobState state) { return static_cast<int64_t>(state); }

// All columns except the three texts, in this order.
#define JOB_COLUMNS                                                                             \
  "number, id, owner, caller, kind, state, version, attempt, max_attempts, epoch, created_ms, " \
  "started_ms, finished_ms, run_at_ms, deadline_ms, expires_ms, progress, gone"

JobRow RowOf(const Statement& row) {
  JobRow job;
  job.number = row.Int(0);
  job.id = row.Text(1);
  job.owner = row.Text(2);
  job.caller = row.Text(3);
  job.kind = row.Text(4);
  job.state = static_cast<JobState>(std::clamp<int64_t>(row.Int(5), 0, Number(JobState::kDead)));
  job.version = row.Int(6);
  job.attempt = row.Int(7);
  job.max_attempts = row.Int(8);
  job.epoch = row.Int(9);
  job.created_ms = row.Int(10);
  job.started_ms = row.Int(11);
  job.finished_ms = row.Int(12);
  job.run_at_ms = row.Int(13);
  job.deadline_ms = row.Int(14);
  job.expires_ms = row.Int(15);
  job.progress = row.Int(16);
  job.gone = row.Int(17) != 0;
  return job;
}
constexpr int kTextsFrom = 18;  // first column after JOB_COLUMNS

Status NoIdKey() {
  return Status(StatusCode::kDataLoss, "record_corrupt", "ids of jobs have no key");
}
std::string TextOfBlob(Blob bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::string> IdKey(Database& database) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT key FROM job_id_key"));
  ASSIGN_OR_RETURN(const bool found, row.Step());
  if (!found) return NoIdKey();
  return TextOfBlob(row.Bytes(0));
}

// Row number of a job of that owner, or of any owner. nullopt: there is no such job.
Result<std::optional<int64_t>> NumberOf(Database& database, const std::string& id,
                                        const std::optional<std::string>& owner) {
  ASSIGN_OR_RETURN(const std::string key, IdKey(database));
  if (const auto number = NumberIn(std::as_bytes(std::span(key)), id)) {
    ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT 1 FROM job WHERE number=?1 AND id=?2 "
                                                     "AND (?3 IS NULL OR owner=?3)"));
    ASSIGN_OR_RETURN(const bool found, row.Bind(*number, id, owner).Step());
    if (found) return number;
  }
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT number FROM job WHERE id=?1 AND "
                                                   "sealed=0 AND (?2 IS NULL OR owner=?2)"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner).Step());
  return found ? std::optional(row.Int(0)) : std::nullopt;
}

// The data that InsertJob() needs, read in one statement, because each costs a microsecond.
struct Before {
  int64_t last_number = 0;
  std::string id_key;
  int64_t queued = 0, request_bytes = 0;  // of the owner
};
Result<Before> LookBefore(Database& database, const std::string& owner) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT (SELECT max(number) FROM job), k.key, t.queued, "
                                    "t.request_bytes FROM job_id_key k LEFT JOIN job_total t ON "
                                    "t.owner=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(owner).Step());
  if (!found) return NoIdKey();
  return Before{row.Int(0), TextOfBlob(row.Bytes(1)), row.Int(2), row.Int(3)};
}

Status CheckRoom(const Before& before, size_t bytes, const JobLimits& limits) {
  if (before.queued >= limits.queued) {
    return ResourceExhausted("tenant_queue_full", std::to_string(before.queued) +
                                                      " jobs wait, and no more are taken before "
                                                      "some have run");
  }
  if (before.request_bytes + static_cast<int64_t>(bytes) > limits.request_bytes) {
    return ResourceExhausted("tenant_queue_full",
                             "the jobs that wait hold " + std::to_string(before.request_bytes) +
                                 " bytes, and no more are taken before some have run");
  }
  return OkStatus();
}

Result<int64_t> ResultBytes(Database& database) {
  ASSIGN_OR_RETURN(Statement sum,
                   database.Prepare("SELECT coalesce(sum(result_bytes), 0) FROM job_total"));
  RETURN_IF_ERROR(sum.Step().status());
  return sum.Int(0);
}

// Drops the oldest results until the rest is within the limit.
Status KeepWithin(Database& database, const JobLimits& limits) {
  while (true) {
    ASSIGN_OR_RETURN(const int64_t bytes, ResultBytes(database));
    if (bytes <= limits.result_bytes) return OkStatus();
    RETURN_IF_ERROR(Run(database,
                        "UPDATE job SET result='', request='', gone=1, version=version+1 WHERE "
                        "number=(SELECT number FROM job WHERE state>=2 AND gone=0 "
                        "ORDER BY finished_ms, number LIMIT 1)"));
    if (database.changes() == 0) return OkStatus();
  }
}

// Owners after `owner`, in order of names, that have queued jobs and are not paused.
Result<std::vector<std::string>> OwnersBehind(Database& database,
                                              const std::optional<std::string>& owner) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(
          "SELECT owner FROM job_total WHERE queued>0 AND "
          "(?1 IS NULL OR owner>?1) AND owner NOT IN (SELECT owner FROM job_paused) ORDER BY owner "
          "LIMIT ?2"));
  return store::FirstColumn(&rows.Bind(owner, kOwnersAtOnce));
}

Result<std::vector<int64_t>> DueOf(Database& database, const std::string& owner, int64_t now_ms,
                                   int64_t most) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT number FROM job WHERE state=0 AND owner=?1 AND "
                                    "run_at_ms<=?2 ORDER BY deadline_ms, number LIMIT ?3"));
  rows.Bind(owner, now_ms, most);
  std::vector<int64_t> numbers;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return numbers;
    numbers.push_back(rows.Int(0));
  }
}

Result<JobRow> Claim(Database& database, int64_t number, int64_t now_ms, int64_t lease_ms) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=1, epoch=epoch+1, attempt=attempt+1, "
                      "lease_until_ms=?2, started_ms=?3, progress=0, version=version+1 "
                      "WHERE number=?1 AND state=0",
                      number, now_ms + lease_ms, now_ms));
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT " JOB_COLUMNS ", request FROM job WHERE number=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(number).Step());
  if (!found) return Internal("a job went while it was claimed");
  JobRow job = RowOf(row);
  job.request = row.Text(kTextsFrom);
  return job;
}

// Whether the job is the last of its owner's queue, as most new jobs are.
Result<bool> IsLast(Database& database, const JobRow& job) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT 1 FROM job WHERE state=0 AND owner=?1 AND "
                                    "(deadline_ms, number)>(?2, ?3) LIMIT 1"));
  ASSIGN_OR_RETURN(const bool behind, row.Bind(job.owner, job.deadline_ms, job.number).Step());
  return !behind;
}

}  // namespace

Result<bool> InsertJob(Database& database, JobRow* row, const std::optional<IdempotencyKey>& key,
                       const JobLimits& limits) {
  if (key.has_value()) {
    ASSIGN_OR_RETURN(Statement known,
                     database.Prepare("SELECT " JOB_COLUMNS ", idem_print, result, error FROM job "
                                      "WHERE owner=?1 AND idem_key=?2"));
    ASSIGN_OR_RETURN(const bool found, known.Bind(row->owner, key->key).Step());
    if (found) {
      RETURN_IF_ERROR(
          idempotency::CheckSameBody(TextOfBlob(known.Bytes(kTextsFrom)), key->body_hash));
      *row = RowOf(known);
      row->result = known.Text(kTextsFrom + 1);
      row->error = known.Text(kTextsFrom + 2);
      return false;
    }
  }
  ASSIGN_OR_RETURN(const Before before, LookBefore(database, row->owner));
  RETURN_IF_ERROR(CheckRoom(before, row->request.size(), limits));
  std::optional<std::string> idem_key;
  std::optional<Blob> idem_print;
  if (key.has_value()) {
    idem_key = key->key;
    idem_print = std::as_bytes(std::span(key->body_hash));
  }
  const bool sealed = row->id.empty();
  row->number = before.last_number + 1;
  if (sealed) row->id = SealedId(std::as_bytes(std::span(before.id_key)), row->number);
  RETURN_IF_ERROR(Run(
      database,
      "INSERT INTO job(number, id, owner, caller, kind, state, version, attempt, max_attempts, "
      "epoch, lease_until_ms, created_ms, started_ms, finished_ms, run_at_ms, deadline_ms, "
      "expires_ms, progress, gone, idem_key, idem_print, request, result, error, sealed) "
      "VALUES(?1, ?2, ?3, ?4, ?5, 0, 1, 0, ?6, 0, 0, ?7, 0, 0, ?8, ?9, 0, 0, 0, ?10, ?11, ?12, "
      "'', '', ?13)",
      row->number, row->id, row->owner, row->caller, row->kind, row->max_attempts, row->created_ms,
      row->run_at_ms, row->deadline_ms, idem_key, idem_print, row->request, sealed));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO job_total VALUES(?1, 1, 1, 0, ?2, 0) ON CONFLICT(owner) DO "
                      "UPDATE SET jobs=jobs+1, queued=queued+1, request_bytes=request_bytes+?2",
                      row->owner, static_cast<int64_t>(row->request.size())));
  if (!row->webhook.empty()) RETURN_IF_ERROR(webhooks::AddWish(database, row->id, row->webhook));
  return true;
}

Result<std::vector<JobRow>> ClaimJobs(Database& database, int64_t now_ms, int64_t lease_ms,
                                      int64_t most, std::optional<std::string>* owner) {
  ASSIGN_OR_RETURN(std::vector<std::string> owners, OwnersBehind(database, *owner));
  if (owner->has_value() && static_cast<int64_t>(owners.size()) < kOwnersAtOnce) {
    // Continues from the first owner, up to the one where this began.
    ASSIGN_OR_RETURN(std::vector<std::string> first, OwnersBehind(database, std::nullopt));
    for (std::string& name : first) {
      if (name > **owner) break;
      owners.push_back(std::move(name));
    }
  }
  std::vector<std::vector<int64_t>> due;
  std::vector<int64_t> waiting;
  for (const std::string& name : owners) {
    ASSIGN_OR_RETURN(std::vector<int64_t> numbers, DueOf(database, name, now_ms, most));
    waiting.push_back(std::ssize(numbers));
    due.push_back(std::move(numbers));
  }
  std::vector<JobRow> claimed;
  std::vector<size_t> taken(owners.size());
  for (const size_t at : background::FairOrder(waiting, most)) {
    ASSIGN_OR_RETURN(JobRow job, Claim(database, due[at][taken[at]++], now_ms, lease_ms));
    *owner = owners[at];
    claimed.push_back(std::move(job));
  }
  return claimed;
}

Result<bool> RenewLease(Database& database, const JobRow& job, int64_t lease_until_ms,
                        int64_t progress) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET lease_until_ms=?3, progress=?4 "
                      "WHERE number=?1 AND id=?5 AND epoch=?2 AND state=1",
                      job.number, job.epoch, lease_until_ms, progress, job.id));
  return database.changes() > 0;
}

Result<bool> FinishJob(Database& database, const JobRow& job, int64_t now_ms,
                       const JobLimits& limits) {
  const bool again = job.state == JobState::kFailed || job.state == JobState::kDead;
  RETURN_IF_ERROR(Run(
      database,
      "UPDATE job SET state=?3, result=?4, error=?5, progress=?6, finished_ms=?7, expires_ms=?8, "
      "lease_until_ms=0, version=version+1, request=CASE WHEN ?9 THEN request ELSE '' END "
      "WHERE number=?1 AND id=?10 AND epoch=?2 AND state=1",
      job.number, job.epoch, Number(job.state), job.result, job.error, job.progress, now_ms,
      now_ms + limits.result_ttl_ms, again, job.id));
  if (database.changes() == 0) return false;
  RETURN_IF_ERROR(KeepWithin(database, limits));
  return true;
}

Result<bool> RequeueJob(Database& database, const JobRow& job, int64_t run_at_ms, bool counted) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=0, run_at_ms=?3, lease_until_ms=0, "
                      "attempt=attempt-CASE WHEN ?4 THEN 0 ELSE 1 END, version=version+1 "
                      "WHERE number=?1 AND id=?5 AND epoch=?2 AND state=1",
                      job.number, job.epoch, run_at_ms, counted, job.id));
  return database.changes() > 0;
}

Result<int64_t> SweepLeases(Database& database, int64_t now_ms, bool all, const JobLimits& limits) {
  const int64_t before = all ? INT64_MAX : now_ms;
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=?2, finished_ms=?3, expires_ms=?4, lease_until_ms=0, "
                      "error=?5, version=version+1 "
                      "WHERE state=1 AND lease_until_ms<=?1 AND attempt>=max_attempts",
                      before, Number(JobState::kDead), now_ms, now_ms + limits.result_ttl_ms,
                      protocol::JobErrorJson(background::AttemptsExhausted())));
  int64_t changed = database.changes();
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=0, run_at_ms=0, lease_until_ms=0, version=version+1 "
                      "WHERE state=1 AND lease_until_ms<=?1",
                      before));
  changed += database.changes();
  return changed;
}

Result<int64_t> ReleaseJobs(Database& database) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=0, run_at_ms=0, lease_until_ms=0, attempt=attempt-1, "
                      "version=version+1 WHERE state=1"));
  return database.changes();
}

Result<std::vector<std::string>> ExpireJobs(Database& database, int64_t now_ms, int64_t most,
                                            const JobLimits& limits) {
  std::vector<std::pair<int64_t, std::string>> found;
  {
    ASSIGN_OR_RETURN(
        Statement rows,
        database.Prepare("SELECT number, id FROM job WHERE state=0 AND owner IN (SELECT owner FROM "
                         "job_total WHERE queued>0) AND deadline_ms<=?1 LIMIT ?2"));
    rows.Bind(now_ms, most);
    while (true) {
      ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) break;
      found.emplace_back(rows.Int(0), rows.Text(1));
    }
  }
  const std::string error = protocol::JobErrorJson(Status(
      StatusCode::kDeadlineExceeded, "deadline_exceeded", "it was not done before its deadline"));
  std::vector<std::string> ids;
  for (auto& [number, id] : found) {
    RETURN_IF_ERROR(Run(database,
                        "UPDATE job SET state=?2, finished_ms=?3, expires_ms=?4, error=?5, "
                        "request='', version=version+1 WHERE number=?1 AND state=0",
                        number, Number(JobState::kExpired), now_ms, now_ms + limits.result_ttl_ms,
                        error));
    ids.push_back(std::move(id));
  }
  return ids;
}

Result<int64_t> DropResults(Database& database, int64_t now_ms, int64_t most,
                            const JobLimits& limits) {
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET result='', request='', gone=1, version=version+1 "
                      "WHERE number IN (SELECT number FROM job WHERE state>=2 AND gone=0 AND "
                      "expires_ms<=?1 LIMIT ?2)",
                      now_ms, most));
  int64_t changed = database.changes();
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM job WHERE number IN (SELECT number FROM job WHERE state>=2 AND "
                      "expires_ms<=?1 LIMIT ?2)",
                      now_ms - kTombstoneMs, most));
  changed += database.changes();
  RETURN_IF_ERROR(KeepWithin(database, limits));
  return changed;
}

Result<std::optional<JobRow>> LoadJob(Database& database, const std::string& owner,
                                      const std::string& id) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, NumberOf(database, id, owner));
  if (!number.has_value()) return std::optional<JobRow>();
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT " JOB_COLUMNS ", result, error FROM job "
                                                   "WHERE number=?1"));
  RETURN_IF_ERROR(row.Bind(*number).Step().status());
  JobRow job = RowOf(row);
  job.result = row.Text(kTextsFrom);
  job.error = row.Text(kTextsFrom + 1);
  return std::optional(std::move(job));
}

Result<std::optional<JobRow>> EventAfter(Database& database, const JobRow& job, int64_t after) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT version, state, attempt, started_ms, finished_ms, "
                                    "run_at_ms, deadline_ms, expires_ms, progress, error FROM "
                                    "job_event WHERE job=?1 AND version>?2 AND version<?3 "
                                    "ORDER BY version LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(job.number, after, job.version).Step());
  if (!found) return std::optional<JobRow>();
  JobRow event = job;
  event.result.clear();
  event.version = row.Int(0);
  event.state = static_cast<JobState>(std::clamp<int64_t>(row.Int(1), 0, Number(JobState::kDead)));
  event.attempt = row.Int(2);
  event.started_ms = row.Int(3);
  event.finished_ms = row.Int(4);
  event.run_at_ms = row.Int(5);
  event.deadline_ms = row.Int(6);
  event.expires_ms = row.Int(7);
  event.progress = row.Int(8);
  event.error = row.Text(9);
  return std::optional(std::move(event));
}

protocol::JobView ViewOf(const JobRow& row) {
  protocol::JobView view;
  view.id = row.id;
  view.kind = row.kind;
  view.state = row.state;
  view.version = row.version;
  view.attempt = row.attempt;
  view.max_attempts = row.max_attempts;
  view.created_ms = row.created_ms;
  view.started_ms = row.started_ms;
  view.finished_ms = row.finished_ms;
  view.run_at_ms = row.run_at_ms;
  view.deadline_ms = row.deadline_ms;
  view.expires_ms = row.expires_ms;
  view.progress_tokens = row.progress;
  view.result = row.result;
  view.error = row.error;
  return view;
}

Result<std::optional<std::string>> OwnerOf(Database& database, const std::string& id) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, NumberOf(database, id, std::nullopt));
  if (!number.has_value()) return std::optional<std::string>();
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT owner FROM job WHERE number=?1"));
  RETURN_IF_ERROR(row.Bind(*number).Step().status());
  return std::optional(std::string(row.Text(0)));
}

Result<std::vector<JobRow>> ListJobs(Database& database, const std::optional<std::string>& owner,
                                     const JobQuery& query) {
  int64_t behind = query.ascending ? 0 : INT64_MAX;
  if (!query.after.empty()) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> number, NumberOf(database, query.after, owner));
    if (!number.has_value())
      return NotFound("not_found", "after: there is no such job").WithParam("after");
    behind = *number;
  }
  int64_t states = 0;  // a bit each
  for (const JobState state : query.states) states |= int64_t{1} << Number(state);
  if (states == 0) states = -1;
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(
          query.ascending
              ? "SELECT " JOB_COLUMNS ", error FROM job WHERE "
                "(?1 IS NULL OR owner=?1) AND number>?2 AND (?3>>state)&1 ORDER BY number LIMIT ?4"
              : "SELECT " JOB_COLUMNS ", error FROM job WHERE "
                "(?1 IS NULL OR owner=?1) AND number<?2 AND (?3>>state)&1 ORDER BY number DESC "
                "LIMIT ?4"));
  rows.Bind(owner, behind, states, query.limit);
  std::vector<JobRow> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return jobs;
    jobs.push_back(RowOf(rows));
    jobs.back().error = rows.Text(kTextsFrom);
  }
}

Result<bool> CancelQueued(Database& database, const std::string& owner, const std::string& id,
                          int64_t now_ms, const JobLimits& limits) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, NumberOf(database, id, owner));
  if (!number.has_value()) return false;
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=?2, finished_ms=?3, expires_ms=?4, request='', "
                      "version=version+1 WHERE number=?1 AND state=0",
                      *number, Number(JobState::kCancelled), now_ms,
                      now_ms + limits.result_ttl_ms));
  return database.changes() > 0;
}

Result<bool> ReplayJob(Database& database, const std::string& owner, const std::string& id,
                       int64_t deadline_ms) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, NumberOf(database, id, owner));
  if (!number.has_value()) return false;
  RETURN_IF_ERROR(Run(database,
                      "UPDATE job SET state=0, attempt=0, run_at_ms=0, deadline_ms=?2, "
                      "finished_ms=0, expires_ms=0, error='', result='', version=version+1 "
                      "WHERE number=?1 AND state IN (?3, ?4) AND request<>''",
                      *number, deadline_ms, Number(JobState::kFailed), Number(JobState::kDead)));
  return database.changes() > 0;
}

Status PauseOwner(Database& database, const std::string& owner, bool paused) {
  return paused ? Run(database, "INSERT OR IGNORE INTO job_paused VALUES(?1)", owner)
                : Run(database, "DELETE FROM job_paused WHERE owner=?1", owner);
}

Result<bool> IsPaused(Database& database, const std::string& owner) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT 1 FROM job_paused WHERE owner=?1"));
  return row.Bind(owner).Step();
}

Result<std::vector<std::string>> PausedOwners(Database& database) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare("SELECT owner FROM job_paused ORDER BY owner"));
  return store::FirstColumn(&rows);
}

Result<QueuePlace> PlaceOf(Database& database, const JobRow& job) {
  QueuePlace place;
  ASSIGN_OR_RETURN(const bool last, IsLast(database, job));
  if (!last) {
    ASSIGN_OR_RETURN(
        Statement row,
        database.Prepare("SELECT count(*) FROM (SELECT 1 FROM job WHERE state=0 AND owner=?1 AND "
                         "(deadline_ms, number)<(?2, ?3) LIMIT ?4)"));
    RETURN_IF_ERROR(
        row.Bind(job.owner, job.deadline_ms, job.number, kCountedBefore).Step().status());
    place.before = row.Int(0);
  }
  if (last || place.before == kCountedBefore) {
    ASSIGN_OR_RETURN(Statement row,
                     database.Prepare("SELECT queued FROM job_total WHERE owner=?1"));
    RETURN_IF_ERROR(row.Bind(job.owner).Step().status());
    place.before = std::max(row.Int(0) - 1, place.before);
  }
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT count(*), coalesce(sum(queued), 0) FROM job_total "
                                    "WHERE queued>0"));
  RETURN_IF_ERROR(row.Step().status());
  place.owners = row.Int(0);
  place.waiting = row.Int(1);
  return place;
}

Result<JobCounts> CountJobs(Database& database) {
  JobCounts counts;
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT coalesce(sum(queued), 0), coalesce(sum(running), 0), "
                                    "coalesce(sum(result_bytes), 0) FROM job_total"));
  RETURN_IF_ERROR(row.Step().status());
  counts.queued = row.Int(0);
  counts.running = row.Int(1);
  counts.result_bytes = row.Int(2);
  return counts;
}

}  // namespace tutti::jobs
