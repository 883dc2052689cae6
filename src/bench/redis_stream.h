// Rate of accepts of a Redis stream on the same disk, each entry flushed before it is acknowledged
// (`appendfsync always`): a well-known queue to compare the store with.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "bench/job_accepts.h"

namespace tutti::bench {

// Starts redis-server (found in PATH) in a folder of its own inside `folder`, reachable only
// through a Unix socket there, and ends it before the call returns. Sends XADD of kAcceptBytes each
// over `at_once` concurrent connections for about `seconds`. Empty if there is no redis-server.
// Errors: store_failed (it does not start, or refuses a command).
Result<std::optional<AcceptFigures>> RedisAcceptsOf(const std::string& folder, int at_once,
                                                    double seconds);

}  // namespace tutti::bench
