// SharingThread: runs Limiter::Exchange() with the store of shared quotas on its own thread. The
// limiter must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/status.h"
#include "services/limits/limiter.h"

namespace tutti::limits {

class SharingThread {
 public:
  // `changed` is called on that thread with the error when the store becomes unreachable, and with
  // OK when it is reachable again; may be empty. Errors: overloaded (a thread cannot be started).
  static Result<std::unique_ptr<SharingThread>> Start(
      Limiter* limiter, std::function<void(const Status&)> changed = nullptr);
  ~SharingThread();

 private:
  explicit SharingThread(Limiter* limiter) : limiter_(*limiter) {}
  Limiter& limiter_;
  std::jthread thread_;
};

}  // namespace tutti::limits
