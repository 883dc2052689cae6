// AddressPenalties: delays new connections from an address after earlier connections from it were
// shut down for abuse, so that repeated abuse costs the server little time. Open connections are
// not affected. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace tutti::rpc {

struct PenaltyLimits {
  Duration first = std::chrono::milliseconds(125);  // after one abuse; doubled with each more
  Duration most = std::chrono::seconds(2);
  Duration forgotten = std::chrono::minutes(1);  // without further abuse
  size_t addresses = 1024;                       // remembered at once
};

class AddressPenalties {
 public:
  explicit AddressPenalties(const PenaltyLimits& limits) : limits_(limits) {}

  // Records that a connection from `address` was shut down for abuse.
  void Add(const std::string& address, TimePoint now);

  // When to serve a connection from `address` that arrives now: `now`, or later.
  TimePoint ServedAt(const std::string& address, TimePoint now) const;

 private:
  struct Penalty {
    Duration pause;
    TimePoint noted;
  };
  void MakeRoom(TimePoint now);

  const PenaltyLimits limits_;
  std::unordered_map<std::string, Penalty> penalties_;
};

}  // namespace tutti::rpc
