// LoginGate: how many connections may be without a login at once, in all and of one address, so
// that who never logs in takes a bounded share of memory and of the door. Pure counting; the io
// thread's.
#pragma once

#include <string>
#include <unordered_map>

#include "doors/mqtt/listener/limits.h"

namespace tutti::mqtt::listener {

class LoginGate {
 public:
  explicit LoginGate(const Limits& limits) : limits_(limits) {}

  bool Enter(const std::string& address);         // false: there is no room
  bool IsFull(const std::string& address) const;  // of that address alone
  void Leave(const std::string& address);
  int inside() const { return inside_; }

 private:
  const Limits& limits_;
  int inside_ = 0;
  std::unordered_map<std::string, int> of_address_;  // at most one entry for each inside
};

}  // namespace tutti::mqtt::listener
