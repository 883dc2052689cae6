// Database rows of jobs: queued, running under a lease, or ended with a result. All SQL about jobs
// is here, and therefore the file is long.
//
// Fencing: each claim increases the epoch of a job, and every later update carries the epoch of its
// claim, so that a runner that has lost its lease changes nothing. All functions run on the store's
// thread, inside a Store::Work; their errors are the database's and record_corrupt. Times are unix
// milliseconds. Long, because every state change of a job is a statement here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/job.h"
#include "store/database.h"

namespace tutti::jobs {

extern const store::Migration kJobTables;
// Trigger: the end of a job with a webhook inserts an event into webhooks::kWebhookTables, in the
// same transaction.
extern const store::Migration kJobNews;
// Accepts at a fraction of what they cost: ids that need no index (job_id.h), fewer indexes, totals
// of what is new by the statement that adds it. Requests that are kept of what failed count as
// results, and events have their job's owner (behind webhooks::kWebhookOwners).
extern const store::Migration kLeanJobs;
// History of jobs: one row per earlier version, at most 64 per job, kept as long as its result.
extern const store::Migration kJobEvents;
// All migrations that jobs need, in order; for tests.
std::vector<store::Migration> JobMigrations();

using protocol::JobState;

struct JobRow {
  int64_t number = 0;     // of the row, while it lasts
  std::string id, owner;  // owner: tenant
  std::string caller;     // JSON, as responses::WriteCaller
  std::string kind;       // as calls::NameOf
  JobState state = JobState::kQueued;
  int64_t version = 1;
  int64_t attempt = 0, max_attempts = 3;
  int64_t epoch = 0;  // of the last claim
  int64_t created_ms = 0, started_ms = 0, finished_ms = 0;
  int64_t run_at_ms = 0;    // not before; 0: at once, for any clock
  int64_t deadline_ms = 0;  // the latest end
  int64_t expires_ms = 0;   // of its result; 0: it has not ended
  int64_t progress = 0;     // output tokens, as of the last heartbeat
  std::string request;      // the body; empty once the job cannot run again
  std::string result, error;
  bool gone = false;    // it has ended and its result is deleted
  std::string webhook;  // of a new job: URL for the event at its end; empty: none
};

// Idempotency key of a request: a repeated request with the same key returns the existing job.
struct IdempotencyKey {
  std::string key;        // with the route
  std::string body_hash;  // as idempotency::CanonicalBodyHash()
};

// Limits on the queue of one owner and on the stored results of all.
struct JobLimits {
  int64_t queued = 100'000;                         // of an owner
  int64_t request_bytes = int64_t{256} << 20;       // of an owner's jobs that have not ended
  int64_t result_bytes = int64_t{256} << 20;        // of all; the oldest results go first
  int64_t result_ttl_ms = int64_t{24} * 3'600'000;  // after the end
};

// Inserts a job, gives it an id if it has none, and returns true. Duplicate idempotency key: sets
// `*row` to the existing job and returns false. Errors, all before the first change:
// idempotency_key_mismatch, tenant_queue_full.
Result<bool> InsertJob(store::Database& database, JobRow* row,
                       const std::optional<IdempotencyKey>& key, const JobLimits& limits);

// Claims up to `most` jobs that are due at `now_ms`. Owners take turns, beginning after `*owner`
// (nullopt: the first); jobs of one owner are taken in order of their deadlines. On return `*owner`
// is where the next call continues.
Result<std::vector<JobRow>> ClaimJobs(store::Database& database, int64_t now_ms, int64_t lease_ms,
                                      int64_t most, std::optional<std::string>* owner);
// Extends the lease of a running job and stores its progress. False if the lease was lost, that is,
// the epoch of `job` is no longer current.
Result<bool> RenewLease(store::Database& database, const JobRow& job, int64_t lease_until_ms,
                        int64_t progress);
// Ends a running job with the state, result, error and progress of `job`, and drops the oldest
// results beyond the limit. False if the lease was lost.
Result<bool> FinishJob(store::Database& database, const JobRow& job, int64_t now_ms,
                       const JobLimits& limits);
// Requeues a running job, to run at `run_at_ms` or later. `counted`: the attempt counts. False if
// the lease was lost.
Result<bool> RequeueJob(store::Database& database, const JobRow& job, int64_t run_at_ms,
                        bool counted);

// Requeues jobs whose lease has expired at `now_ms`; those without attempts left become dead.
// Returns their number. `all`: every lease counts as expired; for the start of the process, because
// only one process runs jobs.
Result<int64_t> SweepLeases(store::Database& database, int64_t now_ms, bool all,
                            const JobLimits& limits);
// Requeues all running jobs without counting an attempt; called when the process stops.
Result<int64_t> ReleaseJobs(store::Database& database);
// Expires at most `most` queued jobs whose deadline has passed; returns their ids.
Result<std::vector<std::string>> ExpireJobs(store::Database& database, int64_t now_ms, int64_t most,
                                            const JobLimits& limits);
// Drops at most `most` results that are too old, and later their rows; returns the number of
// changed rows.
Result<int64_t> DropResults(store::Database& database, int64_t now_ms, int64_t most,
                            const JobLimits& limits);

// The first known version of `job` after version `after` and before its current one, without a
// result. nullopt: there is none.
Result<std::optional<JobRow>> EventAfter(store::Database& database, const JobRow& job,
                                         int64_t after);

// Loads a job without its request; nullopt if the owner has no such job.
Result<std::optional<JobRow>> LoadJob(store::Database& database, const std::string& owner,
                                      const std::string& id);
// Filter of ListJobs(): jobs in one of `states` (empty: all), newest or oldest first, after the job
// `after` (empty: from the beginning).
struct JobQuery {
  std::vector<JobState> states = {};
  std::string after = {};
  bool ascending = false;
  int64_t limit = 20;
};
Result<std::vector<JobRow>> ListJobs(store::Database& database,
                                     const std::optional<std::string>& owner,
                                     const JobQuery& query);
// Owner of a job; nullopt if there is no such job.
Result<std::optional<std::string>> OwnerOf(store::Database& database, const std::string& id);
// Public view of a job, without its position in the queue.
protocol::JobView ViewOf(const JobRow& row);

// Cancels a queued job; returns false if it was not queued.
Result<bool> CancelQueued(store::Database& database, const std::string& owner,
                          const std::string& id, int64_t now_ms, const JobLimits& limits);
// Requeues a failed or dead job with all of its attempts and a new deadline. False if it had not
// failed or cannot run again.
Result<bool> ReplayJob(store::Database& database, const std::string& owner, const std::string& id,
                       int64_t deadline_ms);

// No job of a paused owner is begun.
Status PauseOwner(store::Database& database, const std::string& owner, bool paused);
Result<bool> IsPaused(store::Database& database, const std::string& owner);
Result<std::vector<std::string>> PausedOwners(store::Database& database);

// Queue position of a job: jobs of its owner that begin before it, and owners with queued jobs.
// Counting stops at kCountedBefore; beyond it `before` is an upper bound.
inline constexpr int64_t kCountedBefore = 1000;
struct QueuePlace {
  int64_t before = 0, owners = 0, waiting = 0;
};
Result<QueuePlace> PlaceOf(store::Database& database, const JobRow& job);

struct JobCounts {
  int64_t queued = 0, running = 0;
  int64_t result_bytes = 0;  // kept
};
Result<JobCounts> CountJobs(store::Database& database);

}  // namespace tutti::jobs
