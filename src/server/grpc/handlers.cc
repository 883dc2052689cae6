#include "server/grpc/handlers.h"

#include <utility>

#include "base/check.h"

namespace tutti::rpc {

Handlers::Entered Handlers::Enter(int64_t message_bytes, std::function<void()> run,
                                  uint64_t* ticket) {
  const MutexLock lock(mutex_);
  if (running_ < max_) {
    ++running_;
    return Entered::kNow;
  }
  if (static_cast<int>(line_.size()) >= max_waiting_ || message_bytes > max_bytes_ - bytes_) {
    return Entered::kFull;
  }
  bytes_ += message_bytes;
  *ticket = ++tickets_;
  line_.emplace(*ticket, Waiting{message_bytes, std::move(run)});
  return Entered::kWait;
}

void Handlers::Leave() {
  std::function<void()> next;
  {
    const MutexLock lock(mutex_);
    CHECK_GT(running_, 0);
    if (line_.empty()) {
      --running_;
      return;
    }
    // Passes the handler to the first call in the queue.
    const auto first = line_.begin();
    next = std::move(first->second.run);
    bytes_ -= first->second.bytes;
    line_.erase(first);
  }
  hand_on_(std::move(next));
}

void Handlers::Forget(uint64_t ticket) {
  std::function<void()> gone;  // and what it holds, without the lock
  const MutexLock lock(mutex_);
  const auto found = line_.find(ticket);
  if (found == line_.end()) return;
  gone = std::move(found->second.run);
  bytes_ -= found->second.bytes;
  line_.erase(found);
}

int Handlers::running() const {
  const MutexLock lock(mutex_);
  return running_;
}

int Handlers::waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(line_.size());
}

}  // namespace tutti::rpc
