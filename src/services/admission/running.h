// Running: which requests of which credential are under way, so that those of a revoked one can be
// ended, and none of it begins any more.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/token_stream.h"
#include "base/mutex.h"

namespace tutti::admission {

// One request that can be ended from outside. Any thread.
class Endable {
 public:
  explicit Endable(std::string credential) : credential_(std::move(credential)) {}
  const std::string& credential() const { return credential_; }
  bool revoked() const { return revoked_.load(std::memory_order_acquire); }

  // Once, when the request is under way: ends it if it was revoked meanwhile.
  void SetControl(const std::shared_ptr<api::Cancellable>& control);
  void Revoke();

 private:
  const std::string credential_;
  std::atomic<bool> revoked_{false};
  Mutex mutex_;
  std::weak_ptr<api::Cancellable> control_ GUARDED_BY(mutex_);
};

// Any thread.
class Running {
 public:
  void Add(const std::shared_ptr<Endable>& request);
  void Remove(const Endable& request);
  // Ends all of them; how many there were. Those that are added later are not concerned.
  size_t Revoke(std::string_view credential);
  size_t size() const;

  // What is held for requests, their ends included: whoever goes waits until there is none.
  void Hold();
  void LetGo();
  void WaitUntilNoneIsHeld();

 private:
  using Requests = std::unordered_map<const Endable*, std::weak_ptr<Endable>>;
  mutable Mutex mutex_;
  CondVar none_;
  size_t held_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Requests> of_ GUARDED_BY(mutex_);  // by credential
};

}  // namespace tutti::admission
