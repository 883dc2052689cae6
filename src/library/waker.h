// JobWaker: lets a thread of the host program wait for one or several token streams.
//
// It forwards the wakes of one stream to a WakeCount, which several streams may share, and reports
// all text of the stream as consumed at once. There is no back-pressure, because the owner of a job
// may read it at any time and max_tokens bounds its log.
#pragma once

#include <memory>
#include <utility>

#include "api/token_stream.h"
#include "base/mutex.h"
#include "base/wake_count.h"

namespace tutti::library {

class JobWaker final : public Waker {
 public:
  explicit JobWaker(std::shared_ptr<WakeCount> wakes) : wakes_(std::move(wakes)) {}

  // Sets the generation that this waker serves; it must not move until Detach().
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
