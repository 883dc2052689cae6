#include "engine/tenant_shares.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::engine {

uint32_t TenantShares::Join(const std::string& name) {
  if (const auto it = index_.find(name); it != index_.end()) {
    ++tenants_[it->second].live;
    return it->second;
  }
  double least = 0;
  bool any = false;
  size_t slot = tenants_.size();
  for (size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].live == 0) {
      slot = std::min(slot, i);
    } else if (!any || tenants_[i].service < least) {
      least = tenants_[i].service;
      any = true;
    }
  }
  if (slot == tenants_.size()) tenants_.emplace_back();
  Tenant& tenant = tenants_[slot];
  tenant.name = name;
  tenant.service = least;
  tenant.live = 1;
  index_.emplace(name, static_cast<uint32_t>(slot));
  return static_cast<uint32_t>(slot);
}

bool TenantShares::Leave(uint32_t tenant) {
  Tenant& t = tenants_[tenant];
  CHECK_GT(t.live, 0);
  if (--t.live > 0) return false;
  index_.erase(t.name);
  return true;
}

}  // namespace tutti::engine
