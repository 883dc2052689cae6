// A Redis stream beside the store: what a queue that many know takes on the same disk, with each
// entry flushed before it is acknowledged (`appendfsync always`).
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "bench/job_accepts.h"

namespace tutti::bench {

// Debian's redis-server, found by PATH, as a process of its own in a folder of its own in `folder`,
// reached by a socket there alone and ended with the call: XADD of kAcceptBytes each over so many
// connections at once, for about `seconds`. Nothing: there is no redis-server. Errors: store_failed
// (it does not start, or refuses).
Result<std::optional<AcceptFigures>> RedisAcceptsOf(const std::string& folder, int at_once,
                                                    double seconds);

}  // namespace tutti::bench
