// Migrations of the tables of jobs.
#pragma once

#include <vector>

#include "store/migrations.h"

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

}  // namespace tutti::jobs
