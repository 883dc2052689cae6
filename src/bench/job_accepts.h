// Durable accepts on a disk: how many jobs a second a store takes, and how many one SQLite commit
// for each would.
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
  std::vector<double> accept_s = {};  // of each, from handing it in until it is durable
};

// A store of its own in `folder`, for about `seconds`. Errors: the store's.
Result<AcceptFigures> AcceptsOf(const std::string& folder, int at_once, double seconds);
// The same rows, one commit each, one after the other.
Result<AcceptFigures> PlainCommits(const std::string& folder, double seconds);

}  // namespace tutti::bench
