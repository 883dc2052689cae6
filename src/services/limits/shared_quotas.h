// SharedQuotas: the port to what several servers of one service have in common (over Redis:
// redis_quotas.h). Plain values and one interface.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::limits {

// What one server says of one quota: what it has spent, and how much it wants to have at hand.
struct QuotaAsk {
  std::string key;     // "{TENANT}:...", the same on all servers
  int64_t limit = 0;   // units, and the most there are at once; >= 1
  Duration period{0};  // in which an empty quota fills evenly; 0: never (the key names the day)
  int64_t charge = 0;  // spent beyond what was leased: taken, there or not; below 0: given back
  int64_t want = 0;    // to be leased, as many of them as there are
};

struct QuotaGrant {
  int64_t leased = 0;     // 0..want
  int64_t remaining = 0;  // of all servers' after that; below 0: a debt
};

class SharedQuotas {
 public:
  virtual ~SharedQuotas() = default;
  // One answer for each question, in order; none: whether the others can be reached. By one thread,
  // which may wait: 50 ms at most where it is connected. After an error it is unknown what was
  // counted.
  virtual Status Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) = 0;
};

}  // namespace tutti::limits
