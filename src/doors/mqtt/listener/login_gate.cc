#include "doors/mqtt/listener/login_gate.h"

#include "base/check.h"

namespace tutti::mqtt::listener {

bool LoginGate::Enter(const std::string& address) {
  if (inside_ >= limits_.logins) return false;
  const auto known = of_address_.find(address);
  if (known != of_address_.end() && known->second >= limits_.logins_per_address) return false;
  ++of_address_[address];
  ++inside_;
  return true;
}

void LoginGate::Leave(const std::string& address) {
  const auto known = of_address_.find(address);
  CHECK(known != of_address_.end());
  if (--known->second == 0) of_address_.erase(known);
  --inside_;
}

}  // namespace tutti::mqtt::listener
