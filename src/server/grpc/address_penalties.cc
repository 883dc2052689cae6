#include "server/grpc/address_penalties.h"

#include <algorithm>

namespace tutti::rpc {

void AddressPenalties::Add(const std::string& address, TimePoint now) {
  const auto found = penalties_.find(address);
  if (found != penalties_.end() && now - found->second.noted < limits_.forgotten) {
    found->second = {std::min(2 * found->second.pause, limits_.most), now};
    return;
  }
  if (found == penalties_.end()) MakeRoom(now);
  penalties_.insert_or_assign(address, Penalty{limits_.first, now});
}

void AddressPenalties::MakeRoom(TimePoint now) {
  if (penalties_.size() < limits_.addresses) return;
  std::erase_if(penalties_,
                [&](const auto& each) { return now - each.second.noted >= limits_.forgotten; });
  if (penalties_.size() < limits_.addresses) return;
  penalties_.erase(std::min_element(
      penalties_.begin(), penalties_.end(),
      [](const auto& a, const auto& b) { return a.second.noted < b.second.noted; }));
}

TimePoint AddressPenalties::ServedAt(const std::string& address, TimePoint now) const {
  const auto found = penalties_.find(address);
  if (found == penalties_.end()) return now;
  return std::max(now, found->second.noted + found->second.pause);
}

}  // namespace tutti::rpc
