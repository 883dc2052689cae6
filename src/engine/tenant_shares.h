// TenantShares: the service that each tenant had, for fair share between them (policy/order.h). A
// tenant is known while it has live members; it is named by its index. Pure; engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::engine {

class TenantShares {
 public:
  // A tenant that was not known starts at the least service of the others: it gets its share from
  // now on, not what it missed.
  uint32_t Join(const std::string& name);
  // True when that was its last member: the index may be given to another tenant.
  bool Leave(uint32_t tenant);
  void Charge(uint32_t tenant, double service) { tenants_[tenant].service += service; }
  double service(uint32_t tenant) const { return tenants_[tenant].service; }
  size_t size() const { return tenants_.size(); }  // indices are below

 private:
  struct Tenant {
    std::string name;
    double service = 0;
    int live = 0;
  };
  std::vector<Tenant> tenants_;  // live == 0: free
  std::unordered_map<std::string, uint32_t> index_;
};

}  // namespace tutti::engine
