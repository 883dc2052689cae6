#include "services/admission/running.h"

#include <vector>

namespace tutti::admission {

void Endable::SetControl(const std::shared_ptr<api::Cancellable>& control) {
  {
    const MutexLock lock(mutex_);
    control_ = control;
  }
  if (revoked() && control != nullptr) control->Cancel();
}

void Endable::Revoke() {
  revoked_.store(true, std::memory_order_release);
  std::shared_ptr<api::Cancellable> control;
  {
    const MutexLock lock(mutex_);
    control = control_.lock();
  }
  if (control != nullptr) control->Cancel();
}

void Running::Add(const std::shared_ptr<Endable>& request) {
  const MutexLock lock(mutex_);
  of_[request->credential()].emplace(request.get(), request);
}

void Running::Remove(const Endable& request) {
  const MutexLock lock(mutex_);
  const auto found = of_.find(request.credential());
  if (found == of_.end()) return;
  found->second.erase(&request);
  if (found->second.empty()) of_.erase(found);
}

size_t Running::Revoke(std::string_view credential) {
  std::vector<std::shared_ptr<Endable>> ended;
  {
    const MutexLock lock(mutex_);
    const auto found = of_.find(std::string(credential));
    if (found == of_.end()) return 0;
    for (const auto& [address, request] : found->second) {
      if (std::shared_ptr<Endable> held = request.lock()) ended.push_back(std::move(held));
    }
  }
  for (const std::shared_ptr<Endable>& request : ended) request->Revoke();
  return ended.size();
}

size_t Running::size() const {
  const MutexLock lock(mutex_);
  size_t size = 0;
  for (const auto& [credential, requests] : of_) size += requests.size();
  return size;
}

void Running::Hold() {
  const MutexLock lock(mutex_);
  ++held_;
}

void Running::LetGo() {
  const MutexLock lock(mutex_);
  if (--held_ == 0) none_.NotifyAll();
}

void Running::WaitUntilNoneIsHeld() {
  const MutexLock lock(mutex_);
  while (held_ > 0) none_.Wait(mutex_);
}

}  // namespace tutti::admission
