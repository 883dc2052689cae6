#include "engine/tenant_shares.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::engine {

std::optional<double> TenantShares::LeastService() const {
  std::optional<double> least;
  for (const Tenant& tenant : tenants_) {
    if (tenant.live > 0) least = std::min(least.value_or(tenant.service), tenant.service);
  }
  return least;
}

void TenantShares::Forget(Tenant& tenant) {
  index_.erase(tenant.name);
  tenant = Tenant();
}

uint32_t TenantShares::FreeIndex(std::optional<double> least) {
  int remembered = 0;
  Tenant* nearest = nullptr;  // of those remembered, to being caught up with
  for (Tenant& tenant : tenants_) {
    if (!tenant.known || tenant.live > 0) continue;
    if (least.has_value() && tenant.service <= *least) {
      Forget(tenant);
      continue;
    }
    ++remembered;
    if (nearest == nullptr || tenant.service < nearest->service) nearest = &tenant;
  }
  if (remembered > kMaxRemembered) Forget(*nearest);
  const auto free =
      std::find_if(tenants_.begin(), tenants_.end(), [](const Tenant& t) { return !t.known; });
  if (free != tenants_.end()) return static_cast<uint32_t>(free - tenants_.begin());
  tenants_.emplace_back();
  return static_cast<uint32_t>(tenants_.size() - 1);
}

uint32_t TenantShares::Join(const std::string& name, double weight) {
  CHECK(weight > 0);
  const auto found = index_.find(name);
  const std::optional<double> least = LeastService();
  const uint32_t index = found != index_.end() ? found->second : FreeIndex(least);
  Tenant& tenant = tenants_[index];
  if (!tenant.known) {
    tenant.name = name;
    tenant.known = true;
    index_.emplace(name, index);
  }
  if (tenant.live == 0 && least.has_value()) Lift(index, *least);
  tenant.weight = weight;
  ++tenant.live;
  return index;
}

bool TenantShares::Leave(uint32_t tenant) {
  CHECK_GT(tenants_[tenant].live, 0);
  if (--tenants_[tenant].live > 0) return false;
  const std::optional<double> least = LeastService();
  if (!least.has_value()) {
    for (Tenant& each : tenants_) {
      if (each.known) Forget(each);
    }
  } else if (tenants_[tenant].service <= *least) {
    Forget(tenants_[tenant]);
  }
  return true;
}

}  // namespace tutti::engine
