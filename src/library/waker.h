// JobWaker: how a thread of the host program waits for one or several token streams.
//
// It stands between one stream and a WakeCount, which several streams may share, and reports the
// stream's text as taken at once: a job's owner may look at it as late as he likes, its log is
// bounded by max_tokens, and the engine need not hold the job back.
#pragma once

#include <memory>
#include <utility>

#include "api/token_stream.h"
#include "base/mutex.h"
#include "base/wake_count.h"

namespace tutti::library {

class JobWaker final : public api::StreamWaker {
 public:
  explicit JobWaker(std::shared_ptr<WakeCount> wakes) : wakes_(std::move(wakes)) {}

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
    wakes_->Raise();
  }

 private:
  void Take() REQUIRES(mutex_) { generation_->Consumed(generation_->stream().unread_bytes()); }

  const std::shared_ptr<WakeCount> wakes_;
  Mutex mutex_;
  api::Generation* generation_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tutti::library
