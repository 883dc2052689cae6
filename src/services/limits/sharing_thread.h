// SharingThread: the thread on which a limiter speaks with the servers that share limits. Made once
// the limiter is, gone before it.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/status.h"
#include "services/limits/limiter.h"

namespace tutti::limits {

class SharingThread {
 public:
  // `changed` is told, on that thread, that the others cannot be reached any more (why), or can
  // again (OK); may be empty. Error: overloaded (no thread).
  static Result<std::unique_ptr<SharingThread>> Start(
      Limiter* limiter, std::function<void(const Status&)> changed = nullptr);
  ~SharingThread();

 private:
  explicit SharingThread(Limiter* limiter) : limiter_(*limiter) {}
  Limiter& limiter_;
  std::jthread thread_;
};

}  // namespace tutti::limits
