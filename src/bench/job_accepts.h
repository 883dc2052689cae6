// Durable accepts on a disk: jobs that a store accepts per second, the same with one SQLite commit
// per job, and with a Redis stream.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::bench {

inline constexpr size_t kAcceptBytes = 2000;  // of each

struct AcceptFigures {
  int at_once = 1;
  double per_s = 0;
  std::vector<double> accept_s = {};  // from submission until durable, of each
};

// Measures a new store in `folder` for about `seconds`. Errors: the store's.
Result<AcceptFigures> AcceptsOf(const std::string& folder, int at_once, double seconds);
// Measures the same rows, one commit each, one at a time.
Result<AcceptFigures> PlainCommits(const std::string& folder, double seconds);

// Rate of accepts of a Redis stream on the same disk, each entry flushed before it is acknowledged
// (`appendfsync always`): a well-known queue to compare the store with.
//
// Starts redis-server (found in PATH) in a folder of its own inside `folder`, reachable only
// through a Unix socket there, and ends it before the call returns. Sends XADD of kAcceptBytes each
// over `at_once` concurrent connections for about `seconds`. Empty if there is no redis-server.
// Errors: store_failed (it does not start, or refuses a command).
Result<std::optional<AcceptFigures>> RedisAcceptsOf(const std::string& folder, int at_once,
                                                    double seconds);

}  // namespace tutti::bench
