// BlockingWaker: lets a thread of its own wait for a stream's next event: the terminal programs
// and the benches. The library has its own (library/waker.h), which also reports text as taken.
// Doors with many streams use one waker per io thread instead.
#pragma once

#include <chrono>

#include "api/token_stream.h"
#include "base/mutex.h"

namespace tutti::app {

class BlockingWaker final : public api::StreamWaker {
 public:
  void Wake() noexcept override {
    const MutexLock lock(mutex_);
    ++wakes_;
    changed_.NotifyAll();
  }

  // The next event of `generation`, waiting for it; nullptr after the terminal one, or when
  // `timeout` passed.
  const api::StreamEvent* Next(api::Generation& generation, std::chrono::milliseconds timeout =
                                                                std::chrono::milliseconds::max()) {
    const bool forever = timeout == std::chrono::milliseconds::max();
    const auto deadline =
        std::chrono::steady_clock::now() + (forever ? std::chrono::hours(1) : timeout);
    while (true) {
      uint64_t seen = 0;
      {
        const MutexLock lock(mutex_);
        seen = wakes_;
      }
      if (const api::StreamEvent* event = generation.Next()) {
        generation.Consumed(event->text.size());
        return event;
      }
      if (generation.stream().ended()) return generation.Next();  // ended between the two looks
      const MutexLock lock(mutex_);
      while (wakes_ == seen) {
        if (forever) {
          changed_.Wait(mutex_);
        } else if (const auto left = deadline - std::chrono::steady_clock::now();
                   left <= left.zero() || !changed_.WaitFor(mutex_, left)) {
          return nullptr;
        }
      }
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t wakes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::app
