// Running: the running requests by credential, so that those of a revoked credential can be ended.
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

  // Called once, when the request has begun; ends it if its credential was revoked meanwhile.
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
  // Ends all requests of `credential` and returns their number. Does not affect requests that are
  // added later.
  size_t Revoke(std::string_view credential);
  size_t size() const;

  // Counts users of the objects that the requests need, until the end of each request has been
  // processed. The destructor of Admission waits until the count is 0.
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
