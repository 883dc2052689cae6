// Signal and JobWaker: how a thread of the host program waits for one or several token streams.
//
// A Signal counts wakes; a reader takes the count, looks at its streams and waits for another
// count. A JobWaker stands between one stream and a signal. It also reports the stream's text as
// taken at once: a job's owner may look at it as late as he likes, its log is bounded by
// max_tokens, and the engine need not hold the job back.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "api/token_stream.h"
#include "base/mutex.h"

namespace tutti::library {

class Signal {
 public:
  void Raise() noexcept {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  uint64_t count() {
    const MutexLock lock(mutex_);
    return count_;
  }
  // Waits until the count differs from `seen`; false when `deadline` passed first.
  bool Wait(uint64_t seen, std::chrono::steady_clock::time_point deadline =
                               std::chrono::steady_clock::time_point::max()) {
    const MutexLock lock(mutex_);
    while (count_ == seen) {
      if (deadline == std::chrono::steady_clock::time_point::max()) {
        changed_.Wait(mutex_);
        continue;
      }
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return false;
      changed_.WaitFor(mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

class JobWaker final : public api::StreamWaker {
 public:
  explicit JobWaker(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}

  // The generation this waker was given to; it stays where it is until Detach().
  void Attach(api::Generation& generation) {
    const MutexLock lock(mutex_);
    generation_ = &generation;
    Take();
  }
  void Detach() {
    const MutexLock lock(mutex_);
    generation_ = nullptr;
  }
  void Wake() noexcept override {
    {
      const MutexLock lock(mutex_);
      if (generation_ != nullptr) Take();
    }
    signal_->Raise();
  }

 private:
  void Take() REQUIRES(mutex_) { generation_->Consumed(generation_->stream().unread_bytes()); }

  const std::shared_ptr<Signal> signal_;
  Mutex mutex_;
  api::Generation* generation_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tutti::library
