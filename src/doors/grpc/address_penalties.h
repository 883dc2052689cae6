// AddressPenalties: how long new connections of an address wait after others of it were shut down
// for abuse, so that whoever abuses the door again and again takes little of its time. Those that
// are open are not touched. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace tutti::rpc {

struct PenaltyLimits {
  Duration first = std::chrono::milliseconds(125);  // after one abuse; doubled by each further one
  Duration most = std::chrono::seconds(2);
  Duration forgotten = std::chrono::minutes(1);  // without another
  size_t addresses = 1024;                       // that are remembered at once
};

class AddressPenalties {
 public:
  explicit AddressPenalties(const PenaltyLimits& limits) : limits_(limits) {}

  // A connection of `address` was shut down for abuse.
  void Add(const std::string& address, TimePoint now);

  // When a connection of `address` that comes now is to be served: now, or later.
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
