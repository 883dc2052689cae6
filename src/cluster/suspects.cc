#include "cluster/suspects.h"

namespace tutti::cluster {

Suspects::Standing Suspects::Of(const Fingerprint& request, TimePoint now) {
  const auto found = known_.find(request);
  if (found == known_.end()) return Standing::kClear;
  if (now < found->second.until) return found->second.standing;
  ages_.erase(found->second.age);
  known_.erase(found);
  return Standing::kClear;
}

Suspects::Standing Suspects::Died(const Fingerprint& request, bool on_trial, TimePoint now) {
  if (Of(request, now) == Standing::kClear) {
    if (known_.size() == kMost) {
      known_.erase(ages_.front());
      ages_.pop_front();
    }
    ages_.push_back(request);
    known_[request].age = std::prev(ages_.end());
  }
  Entry& entry = known_[request];
  if (on_trial) entry.standing = Standing::kQuarantined;
  entry.until = now + (on_trial ? kQuarantine : kRemembered);
  return entry.standing;
}

void Suspects::Answered(const Fingerprint& request) {
  const auto found = known_.find(request);
  if (found == known_.end() || found->second.standing == Standing::kQuarantined) return;
  ages_.erase(found->second.age);
  known_.erase(found);
}

}  // namespace tutti::cluster
