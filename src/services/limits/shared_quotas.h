// SharedQuotas: interface of the store of quotas that several servers share (RedisQuotas). Plain
// values and one interface.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::limits {

// One server's request for one quota: units spent since the last request, and units to lease.
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
  // Returns one grant per request, in order; without requests it only checks the connection. For
  // use by one thread; blocks for at most 50 ms while connected. After an error it is unknown which
  // requests were counted.
  virtual Status Exchange(std::span<const QuotaAsk> asks, std::span<QuotaGrant> grants) = 0;
};

}  // namespace tutti::limits
