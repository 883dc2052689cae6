// The tables of jobs, and each step of theirs from one version of the store to the next.
#pragma once

#include <vector>

#include "store/migrations.h"

namespace tutti::jobs {

extern const store::Migration kJobTables;
// The end of a job with a webhook is an event of webhooks::kWebhookTables, in the same transaction.
extern const store::Migration kJobNews;
// Accepts at a fraction of what they cost: ids that need no index (job_id.h), fewer indexes, totals
// of what is new by the statement that adds it. Requests that are kept of what failed count as
// results, and events have their job's owner (behind webhooks::kWebhookOwners).
extern const store::Migration kLeanJobs;
// What a job was before it is what it is: a row for each earlier version, the last 64 of a job, as
// long as its result is kept.
extern const store::Migration kJobEvents;
// All, with what lies between them: what jobs alone need of a store.
std::vector<store::Migration> JobMigrations();

}  // namespace tutti::jobs
