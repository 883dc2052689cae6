// For tests of what answers on the strand: a callback whose result can be waited for, and waiting
// for something to be so. Both give up after a minute, which a busy machine does not take.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"

namespace tutti::support {

// The result of a `done` that is called once with a T.
template <typename T>
class Call {
 public:
  std::function<void(T)> done() {
    return [promise = promise_](T value) { promise->set_value(std::move(value)); };
  }
  bool called() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  T Get() {
    CHECK(future_.wait_for(std::chrono::minutes(1)) == std::future_status::ready)
        << "nobody called";
    return future_.get();
  }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
  std::future<T> future_ = promise_->get_future();
};

inline bool Eventually(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace tutti::support
