// Durable accepts on a disk: jobs that a store accepts per second, and the same with one SQLite
// commit per job.
#pragma once

#include <cstddef>
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

}  // namespace tutti::bench
