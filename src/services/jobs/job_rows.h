// The jobs of the store: what was accepted and waits, what runs under whose lease, what ended and
// with which result. The one place with SQL of theirs.
//
// A claim raises a job's epoch, and every later word of whoever runs it says that epoch: who has
// lost its lease changes nothing (fencing). All functions run on the store's thread, inside a work
// of it; their errors are the database's and record_corrupt. Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"
#include "wire/job.h"

namespace tutti::jobs {

using wire::JobState;

// What a job is dead of.
inline constexpr const char* kAttemptsExhausted = "attempts_exhausted";

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
  int64_t run_at_ms = 0;    // not before; 0: at once, whatever the clock says
  int64_t deadline_ms = 0;  // its end at the latest
  int64_t expires_ms = 0;   // of its result; 0: it has not ended
  int64_t progress = 0;     // output tokens, as of the last beat
  std::string request;      // the body; empty once nobody can run it again
  std::string result, error;
  bool gone = false;    // it has ended, and its result is not kept any more
  std::string webhook;  // of one that is new: who is told of its end; empty: nobody
};

// A name that a client gave to its request, so that it can send it again.
struct IdempotencyKey {
  std::string key;    // with the route
  std::string print;  // of the body: 32 bytes
};

// What one owner may have waiting, and all may have kept.
struct JobLimits {
  int64_t queued = 100'000;                         // of an owner
  int64_t request_bytes = int64_t{256} << 20;       // likewise, of those that have not ended
  int64_t result_bytes = int64_t{256} << 20;        // of all; the oldest results go first
  int64_t result_ttl_ms = int64_t{24} * 3'600'000;  // after the end
};

// In the store, or that it is there already: then `row` becomes the one of that key. It is given
// its id where it has none. Errors, all before the first change: idempotency_key_mismatch,
// tenant_queue_full.
Result<bool> InsertJob(store::Database& database, JobRow* row,
                       const std::optional<IdempotencyKey>& key, const JobLimits& limits);

// Takes up to `most` that are due at `now_ms`: an owner's own in the order of their deadlines, of
// all owners in turn, beginning behind `*owner`, which is left where the next call goes on.
// Nothing: from the first.
Result<std::vector<JobRow>> ClaimJobs(store::Database& database, int64_t now_ms, int64_t lease_ms,
                                      int64_t most, std::optional<std::string>* owner);
// Whether whoever says so still has it.
Result<bool> BeatJob(store::Database& database, const JobRow& job, int64_t lease_until_ms,
                     int64_t progress);
// Likewise, and then it has ended: `job` with its state, result, error and progress. What is over
// the limit of results goes.
Result<bool> FinishJob(store::Database& database, const JobRow& job, int64_t now_ms,
                       const JobLimits& limits);
// Likewise, and then it waits again, from `run_at_ms` on. `spent`: the attempt counts.
Result<bool> RequeueJob(store::Database& database, const JobRow& job, int64_t run_at_ms,
                        bool spent);

// Those whose lease is over at `now_ms` wait again, or are dead where no attempt is left; how many.
// `all`: of whoever has them, at the start of the one process that runs any.
Result<int64_t> SweepLeases(store::Database& database, int64_t now_ms, bool all,
                            const JobLimits& limits);
// All that run wait again, and no attempt is spent: the one process that runs any begins none more.
Result<int64_t> ReleaseJobs(store::Database& database);
// Those that wait and whose deadline has passed, at most `most`; their ids.
Result<std::vector<std::string>> ExpireJobs(store::Database& database, int64_t now_ms, int64_t most,
                                            const JobLimits& limits);
// Results that are too old, at most `most`, and later the rows themselves; how many changed.
Result<int64_t> DropResults(store::Database& database, int64_t now_ms, int64_t most,
                            const JobLimits& limits);

// What `job` was in the first version behind `after` that is still known, before the one it has:
// without a result. Nothing: there is none between them.
Result<std::optional<JobRow>> EventAfter(store::Database& database, const JobRow& job,
                                         int64_t after);

// Without its request. Nothing: there is no such job of this owner.
Result<std::optional<JobRow>> LoadJob(store::Database& database, const std::string& owner,
                                      const std::string& id);
// Of an owner, or of all; `states` empty: all. Newest first, or oldest first, behind the job
// `after` (empty: from the beginning). Without requests and results. Errors: not_found (`after`).
struct JobQuery {
  std::vector<JobState> states = {};
  std::string after = {};
  bool ascending = false;
  int64_t limit = 20;
};
Result<std::vector<JobRow>> ListJobs(store::Database& database,
                                     const std::optional<std::string>& owner,
                                     const JobQuery& query);
// Whose it is; nothing: there is none.
Result<std::optional<std::string>> OwnerOf(store::Database& database, const std::string& id);
// As it is shown, but for its place in the queue.
wire::JobView ViewOf(const JobRow& row);

// One that waits ends as cancelled. Whether it waited.
Result<bool> CancelQueued(store::Database& database, const std::string& owner,
                          const std::string& id, int64_t now_ms, const JobLimits& limits);
// One that failed or is dead waits again with all its attempts, until `deadline_ms`. Whether it
// had, and could be.
Result<bool> ReplayJob(store::Database& database, const std::string& owner, const std::string& id,
                       int64_t deadline_ms);

// Nothing of that owner is begun while it is paused.
Status PauseOwner(store::Database& database, const std::string& owner, bool paused);
Result<bool> IsPaused(store::Database& database, const std::string& owner);
Result<std::vector<std::string>> PausedOwners(store::Database& database);

// Jobs of this owner that are to begin before that one, and how many owners have any that wait. Not
// all are counted: beyond kCountedBefore it is the most that there can be.
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
