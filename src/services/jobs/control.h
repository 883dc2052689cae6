// Control requests about the jobs of all owners (protocol/control.h), from `tutti jobs` and from
// the routes below /admin.
//
// {"op":"jobs.list","status":"queued","tenant":"home","limit":20,"after":"job_..."}
//     -> {"jobs":[{...,"tenant":...}],"more":false,"paused":["home"]}
// {"op":"jobs.show","id":"job_..."}                     -> {"job":{...}}
//     jobs.cancel and jobs.replay have the same members and answer
// {"op":"jobs.pause","tenant":"home"}, also jobs.resume -> {}
//
// `op`, the id, and the tenant of a pause are required; other members are optional. Errors: those
// of Jobs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace tutti::jobs {

class Jobs;

bool IsJobsRequest(std::string_view request);
// `running`: null if this process runs no jobs. Waits for the disk and, after a cancel, for the
// job's end. Any thread but the strand of the jobs.
Result<std::string> HandleControl(store::Store& store, Jobs* running, std::string_view request,
                                  int64_t now_ms);

}  // namespace tutti::jobs
