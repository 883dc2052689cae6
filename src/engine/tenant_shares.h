// TenantShares: the service that each tenant had, for its weight, for fair share between them
// (policy/order.h). Pure; engine thread.
//
// A tenant is known while it has live members; it is named by its index. Who comes gets its share
// from then on, not what it missed: it starts at the least service of the others. Who leaves with
// more than that is remembered until they have caught up, so that a tenant whose requests come one
// after the other does not begin anew with each; and at most kMostRemembered of them. When nobody
// is left nobody owes anything.
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
  static constexpr int kMostRemembered = 64;

  // `weight` > 0 holds for the tenant from now on: its share beside others.
  uint32_t Join(const std::string& name, double weight);
  // True when that was its last member: the index may be given to another tenant.
  bool Leave(uint32_t tenant);

  void Charge(uint32_t tenant, double service) {
    tenants_[tenant].service += ForWeight(tenant, service);
  }
  // What `service` counts for it.
  double ForWeight(uint32_t tenant, double service) const {
    return service / tenants_[tenant].weight;
  }
  // What it saved up below `service` is gone.
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
