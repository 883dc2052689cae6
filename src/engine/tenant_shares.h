// TenantShares: the service of each tenant divided by its weight, for fair share between tenants
// (policy/order.h). Member of WaitingQueue and EncodeQueue; engine thread; no I/O, no clock.
//
// A tenant is identified by an index while it has live members. A new tenant gets its share from
// then on, not what it missed: it starts at the least service of the others. A tenant that leaves
// with more service than that is remembered until the others have caught up, so that a tenant that
// sends one request after the other does not start from the least each time; at most
// kMaxRemembered are. When no tenant has live members, all are forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::engine {

class TenantShares {
 public:
  static constexpr int kMaxRemembered = 64;

  // Adds a member to the tenant and returns its index. `weight` > 0 replaces the tenant's weight:
  // its share relative to the other tenants.
  uint32_t Join(const std::string& name, double weight);
  // True when that was its last member: the index may be given to another tenant.
  bool Leave(uint32_t tenant);

  void Charge(uint32_t tenant, double service) {
    tenants_[tenant].service += ForWeight(tenant, service);
  }
  // `service` in tokens, divided by the tenant's weight.
  double ForWeight(uint32_t tenant, double service) const {
    return service / tenants_[tenant].weight;
  }
  // Raises the tenant's service to `service`, so that an idle tenant saves nothing up.
  void Lift(uint32_t tenant, double service) {
    if (tenants_[tenant].service < service) tenants_[tenant].service = service;
  }
  double service(uint32_t tenant) const { return tenants_[tenant].service; }
  size_t size() const { return tenants_.size(); }  // indices are below

 private:
  struct Tenant {
    std::string name;
    double service = 0;
    double weight = 1;
    int live = 0;
    bool known = false;  // live, or remembered
  };
  std::optional<double> LeastService() const;  // of those with live members
  void Forget(Tenant& tenant);
  uint32_t FreeIndex(std::optional<double> least);

  std::vector<Tenant> tenants_;  // those not known are free
  std::unordered_map<std::string, uint32_t> index_;
};

}  // namespace tutti::engine
