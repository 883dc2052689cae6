#include "server/mqtt/listener/login_gate.h"

#include "base/check.h"

namespace tutti::mqtt::listener {

bool LoginGate::Enter(const std::string& address) {
  if (inside_ >= limits_.logins || IsFull(address)) return false;
  ++of_address_[address];
  ++inside_;
  return true;
}

bool LoginGate::IsFull(const std::string& address) const {
  const auto known = of_address_.find(address);
  return known != of_address_.end() && known->second >= limits_.logins_per_address;
}

void LoginGate::Leave(const std::string& address) {
  const auto known = of_address_.find(address);
  CHECK(known != of_address_.end());
  if (--known->second == 0) of_address_.erase(known);
  --inside_;
}

}  // namespace tutti::mqtt::listener
