// LoginGate: limits the connections without a login, in total and per address, so that clients
// which never log in take a bounded share of memory and connections. Pure counting; used by the io
// thread only.
#pragma once

#include <string>
#include <unordered_map>

#include "server/mqtt/listener/limits.h"

namespace tutti::mqtt::listener {

class LoginGate {
 public:
  explicit LoginGate(const Limits& limits) : limits_(limits) {}

  bool Enter(const std::string& address);         // false: there is no room
  bool IsFull(const std::string& address) const;  // whether the limit of that address is reached
  void Leave(const std::string& address);
  int inside() const { return inside_; }

 private:
  const Limits& limits_;
  int inside_ = 0;
  std::unordered_map<std::string, int> of_address_;  // at most one entry for each connection inside
};

}  // namespace tutti::mqtt::listener
