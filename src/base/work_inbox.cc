#include "base/work_inbox.h"

#include <new>
#include <utility>

namespace tutti {

WorkInbox::WorkInbox(std::function<bool(Work)> post, const Limits& limits, Work settle)
    : post_(std::move(post)), limits_(limits), settle_(std::move(settle)) {}

bool WorkInbox::Post(Work work) {
  const MutexLock lock(mutex_);
  return !sealed_ && AddLocked({.work = std::move(work)});
}

Status WorkInbox::Offer(size_t bytes, Work work) {
  const MutexLock lock(mutex_);
  if (sealed_) return Unavailable("draining", "the server takes no more messages");
  const bool fits = items_ < limits_.items &&
                    (items_ == 0 || (bytes <= limits_.bytes && bytes_ <= limits_.bytes - bytes));
  if (!fits || !AddLocked({.work = std::move(work), .bytes = bytes, .offered = true}))
    return Unavailable("overloaded", "too many messages wait");
  ++items_;
  bytes_ += bytes;
  return OkStatus();
}

void WorkInbox::Wake() {
  const MutexLock lock(mutex_);
  if (!closed_) (void)WakeLocked();
}

bool WorkInbox::AddLocked(Item item) {
  if (!WakeLocked()) return false;
  waiting_.push_back(std::move(item));
  return true;
}

// Posts under the lock, so that nothing is posted after Close().
bool WorkInbox::WakeLocked() {
  if (woken_) return true;
  wanted_.Want();
  woken_ = post_([self = shared_from_this()] { self->RunAll(); });
  if (!woken_) wanted_.Got();
  return woken_;
}

void WorkInbox::RunAll() {
  std::vector<Item> items;
  {
    const MutexLock lock(mutex_);
    woken_ = false;
    if (closed_) return wanted_.Got();
    items.swap(waiting_);
  }
  for (const Item& item : items) {
    if (item.offered) {
      const MutexLock lock(mutex_);
      --items_;
      bytes_ -= item.bytes;
    }
    try {
      item.work();
    } catch (const std::bad_alloc&) {  // this one is lost; those behind it are not
    }
  }
  if (settle_) settle_();
  wanted_.Got();
}

void WorkInbox::Seal() {
  const MutexLock lock(mutex_);
  sealed_ = true;
}

void WorkInbox::Close() {
  std::vector<Item> items;  // destroyed without the lock: one may hold a Receipt, which posts
  {
    const MutexLock lock(mutex_);
    sealed_ = closed_ = true;
    items.swap(waiting_);
  }
}

}  // namespace tutti
