// The tables of jobs, from one version to the next.
#include "services/jobs/job_rows.h"
#include "services/webhooks/webhook_rows.h"

namespace tutti::jobs {
namespace {

// Parts that all versions share, as literals for concatenation.
#define JOB_VALUES                                                                 \
  "owner TEXT NOT NULL, caller TEXT NOT NULL, kind TEXT NOT NULL, "                \
  "state INTEGER NOT NULL, version INTEGER NOT NULL, attempt INTEGER NOT NULL, "   \
  "max_attempts INTEGER NOT NULL, epoch INTEGER NOT NULL, "                        \
  "lease_until_ms INTEGER NOT NULL, created_ms INTEGER NOT NULL, "                 \
  "started_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL, "                    \
  "run_at_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, "                     \
  "expires_ms INTEGER NOT NULL, progress INTEGER NOT NULL, "                       \
  "gone INTEGER NOT NULL, idem_key TEXT, idem_print BLOB, request TEXT NOT NULL, " \
  "result TEXT NOT NULL, error TEXT NOT NULL"
#define JOB_VALUE_NAMES                                                             \
  "number, id, owner, caller, kind, state, version, attempt, max_attempts, epoch, " \
  "lease_until_ms, created_ms, started_ms, finished_ms, run_at_ms, "                \
  "deadline_ms, expires_ms, progress, gone, idem_key, idem_print, request, "        \
  "result, error"
#define JOB_INDEXES                                                               \
  "CREATE INDEX job_waiting ON job(owner, deadline_ms, number) WHERE state=0; "   \
  "CREATE INDEX job_lease ON job(lease_until_ms) WHERE state=1; "                 \
  "CREATE INDEX job_kept ON job(finished_ms, number) WHERE state>=2 AND gone=0; " \
  "CREATE INDEX job_expires ON job(expires_ms) WHERE state>=2; "                  \
  "CREATE INDEX job_owner ON job(owner, number);"

// The first version: an index of ids, one of deadlines, totals by triggers alone.
#define FIRST_JOB_TABLE                                                               \
  "CREATE TABLE job(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, " JOB_VALUES \
  ", UNIQUE(owner, idem_key));"
#define FIRST_JOB_INDEXES JOB_INDEXES "CREATE INDEX job_deadline ON job(deadline_ms) WHERE state=0;"
#define FIRST_JOB_TRIGGERS                                                          \
  "CREATE TRIGGER job_added AFTER INSERT ON job BEGIN "                             \
  "INSERT INTO job_total VALUES(new.owner, 1, new.state=0, new.state=1, "           \
  "CASE WHEN new.state<2 THEN length(CAST(new.request AS BLOB)) ELSE 0 END, "       \
  "length(CAST(new.result AS BLOB))) "                                              \
  "ON CONFLICT(owner) DO UPDATE SET jobs=jobs+1, queued=queued+excluded.queued, "   \
  "running=running+excluded.running, "                                              \
  "request_bytes=request_bytes+excluded.request_bytes, "                            \
  "result_bytes=result_bytes+excluded.result_bytes; "                               \
  "END; "                                                                           \
  "CREATE TRIGGER job_changed AFTER UPDATE OF state, request, result ON job BEGIN " \
  "UPDATE job_total SET queued=queued+(new.state=0)-(old.state=0), "                \
  "running=running+(new.state=1)-(old.state=1), "                                   \
  "request_bytes=request_bytes "                                                    \
  "+CASE WHEN new.state<2 THEN length(CAST(new.request AS BLOB)) ELSE 0 END "       \
  "-CASE WHEN old.state<2 THEN length(CAST(old.request AS BLOB)) ELSE 0 END, "      \
  "result_bytes=result_bytes+length(CAST(new.result AS BLOB)) "                     \
  "-length(CAST(old.result AS BLOB)) "                                              \
  "WHERE owner=new.owner; "                                                         \
  "END; "                                                                           \
  "CREATE TRIGGER job_dropped AFTER DELETE ON job BEGIN "                           \
  "UPDATE job_total SET jobs=jobs-1, queued=queued-(old.state=0), "                 \
  "running=running-(old.state=1), "                                                 \
  "request_bytes=request_bytes "                                                    \
  "-CASE WHEN old.state<2 THEN length(CAST(old.request AS BLOB)) ELSE 0 END, "      \
  "result_bytes=result_bytes-length(CAST(old.result AS BLOB)) "                     \
  "WHERE owner=old.owner; "                                                         \
  "DELETE FROM job_total WHERE owner=old.owner AND jobs=0; "                        \
  "END;"

// The numbers are those of protocol::JobState. OWNER and VALUE: where events have an owner, its
// name.
#define NEWS_TRIGGERS(OWNER, VALUE)                                         \
  "CREATE TRIGGER job_told AFTER UPDATE OF state ON job "                   \
  "WHEN new.state>=2 AND old.state<2 BEGIN "                                \
  "INSERT INTO webhook_event(id, subject, type, url, created_ms, state, "   \
  "attempts, next_ms, ended_ms, error" OWNER                                \
  ") "                                                                      \
  "SELECT 'evt_' || lower(hex(randomblob(16))), new.id, "                   \
  "CASE new.state WHEN 2 THEN 'job.completed' WHEN 4 THEN 'job.cancelled' " \
  "WHEN 5 THEN 'job.expired' ELSE 'job.failed' END, "                       \
  "url, new.finished_ms, 0, 0, 0, 0, ''" VALUE                              \
  " FROM webhook WHERE subject=new.id; "                                    \
  "END; "                                                                   \
  "CREATE TRIGGER job_untold AFTER DELETE ON job BEGIN "                    \
  "DELETE FROM webhook WHERE subject=old.id; "                              \
  "END;"
#define FIRST_NEWS_TRIGGERS NEWS_TRIGGERS("", "")

// Totals count at each change what a row holds: of one that has ended its result and, where that
// is kept for a replay, its request.
#define LEAN_JOB_TRIGGERS                                                               \
  "CREATE TRIGGER job_changed AFTER UPDATE OF state, request, result ON job BEGIN "     \
  "UPDATE job_total SET queued=queued+(new.state=0)-(old.state=0), "                    \
  "running=running+(new.state=1)-(old.state=1), "                                       \
  "request_bytes=request_bytes "                                                        \
  "+(new.state<2)*length(CAST(new.request AS BLOB)) "                                   \
  "-(old.state<2)*length(CAST(old.request AS BLOB)), "                                  \
  "result_bytes=result_bytes "                                                          \
  "+length(CAST(new.result AS BLOB))+(new.state>=2)*length(CAST(new.request AS BLOB)) " \
  "-length(CAST(old.result AS BLOB))-(old.state>=2)*length(CAST(old.request AS BLOB)) " \
  "WHERE owner=new.owner; "                                                             \
  "END; "                                                                               \
  "CREATE TRIGGER job_dropped AFTER DELETE ON job BEGIN "                               \
  "UPDATE job_total SET jobs=jobs-1, queued=queued-(old.state=0), "                     \
  "running=running-(old.state=1), "                                                     \
  "request_bytes=request_bytes-(old.state<2)*length(CAST(old.request AS BLOB)), "       \
  "result_bytes=result_bytes-length(CAST(old.result AS BLOB)) "                         \
  "-(old.state>=2)*length(CAST(old.request AS BLOB)) "                                  \
  "WHERE owner=old.owner; "                                                             \
  "DELETE FROM job_total WHERE owner=old.owner AND jobs=0; "                            \
  "END;"

#define MOVE_JOBS_AWAY "ALTER TABLE job RENAME TO job_before;"
#define MOVE_JOBS_BACK                                           \
  "INSERT INTO job(" JOB_VALUE_NAMES ") SELECT " JOB_VALUE_NAMES \
  " FROM job_before; "                                           \
  "DROP TABLE job_before;"

}  // namespace

const store::Migration kJobTables = {
    FIRST_JOB_TABLE FIRST_JOB_INDEXES
    R"(CREATE TABLE job_total(owner TEXT PRIMARY KEY, jobs INTEGER NOT NULL,
         queued INTEGER NOT NULL, running INTEGER NOT NULL, request_bytes INTEGER NOT NULL,
         result_bytes INTEGER NOT NULL) WITHOUT ROWID;)" FIRST_JOB_TRIGGERS
    "CREATE TABLE job_paused(owner TEXT PRIMARY KEY) WITHOUT ROWID",
    "DROP TABLE job; DROP TABLE job_total; DROP TABLE job_paused"};

const store::Migration kJobNews = {FIRST_NEWS_TRIGGERS,
                                   "DROP TRIGGER job_told; DROP TRIGGER job_untold"};

// SQLite cannot drop a UNIQUE constraint, so the table is recreated with its indices and triggers.
// Older ids (sealed=0) keep their index, which has no newer ones.
const store::Migration kLeanJobs = {
    "UPDATE webhook_event SET owner=coalesce((SELECT owner FROM job WHERE id=subject), "
    "'');" MOVE_JOBS_AWAY
    "CREATE TABLE job(number INTEGER PRIMARY KEY, id TEXT NOT NULL, " JOB_VALUES
    ", sealed INTEGER NOT NULL DEFAULT 0);" MOVE_JOBS_BACK JOB_INDEXES
    R"(CREATE UNIQUE INDEX job_named ON job(id) WHERE sealed=0;
       CREATE UNIQUE INDEX job_same ON job(owner, idem_key) WHERE idem_key IS NOT NULL;)" LEAN_JOB_TRIGGERS
        NEWS_TRIGGERS(", owner", ", new.owner")
            R"(UPDATE job_total SET result_bytes=result_bytes+coalesce((SELECT
         sum(length(CAST(request AS BLOB))) FROM job WHERE job.owner=job_total.owner AND state>=2),
         0);
       CREATE TABLE job_id_key(key BLOB NOT NULL);
       INSERT INTO job_id_key VALUES(randomblob(16)))",
    MOVE_JOBS_AWAY FIRST_JOB_TABLE MOVE_JOBS_BACK FIRST_JOB_INDEXES FIRST_JOB_TRIGGERS
        FIRST_NEWS_TRIGGERS
    R"(UPDATE job_total SET result_bytes=coalesce((SELECT
         sum(length(CAST(result AS BLOB))) FROM job WHERE job.owner=job_total.owner), 0);
       DROP TABLE job_id_key)"};

#define EVENT_VALUES(ROW)                                                                  \
  ROW ".number, " ROW ".version, " ROW ".state, " ROW ".attempt, " ROW ".started_ms, " ROW \
      ".finished_ms, " ROW ".run_at_ms, " ROW ".deadline_ms, " ROW ".expires_ms, " ROW     \
      ".progress, " ROW ".error"

// The version that is left is written, not the one that begins: to accept a job costs nothing more,
// and what a job is stands in its row alone.
const store::Migration kJobEvents = {
    "CREATE TABLE job_event(job INTEGER NOT NULL, version INTEGER NOT NULL, "
    "state INTEGER NOT NULL, attempt INTEGER NOT NULL, started_ms INTEGER NOT NULL, "
    "finished_ms INTEGER NOT NULL, run_at_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, "
    "expires_ms INTEGER NOT NULL, progress INTEGER NOT NULL, error TEXT NOT NULL, "
    "PRIMARY KEY(job, version)) WITHOUT ROWID; "
    "CREATE TRIGGER job_moved AFTER UPDATE OF version ON job WHEN new.gone=0 BEGIN "
    "INSERT INTO job_event VALUES(" EVENT_VALUES("old")
    "); "
    "DELETE FROM job_event WHERE job=new.number AND version<new.version-64; "
    "END; "
    "CREATE TRIGGER job_emptied AFTER UPDATE OF gone ON job WHEN new.gone=1 BEGIN "
    "DELETE FROM job_event WHERE job=new.number; "
    "END; "
    "CREATE TRIGGER job_forgotten AFTER DELETE ON job BEGIN "
    "DELETE FROM job_event WHERE job=old.number; "
    "END",
    "DROP TRIGGER job_moved; DROP TRIGGER job_emptied; DROP TRIGGER job_forgotten; "
    "DROP TABLE job_event"};

std::vector<store::Migration> JobMigrations() {
  return {kJobTables, webhooks::kWebhookTables, kJobNews, webhooks::kWebhookOwners, kLeanJobs,
          kJobEvents};
}

}  // namespace tutti::jobs
