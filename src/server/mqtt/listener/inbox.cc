#include "server/mqtt/listener/inbox.h"

#include <boost/asio/post.hpp>
#include <new>
#include <utility>

namespace tutti::mqtt::listener {

bool Inbox::Post(Work work) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  waiting_.push_back(std::move(work));
  // Under the lock, so that the context is not touched after Close().
  if (waiting_.size() == 1) {
    wanted_.Want();
    boost::asio::post(context_, [self = shared_from_this()] { self->RunAll(); });
  }
  return true;
}

void Inbox::RunAll() {
  std::vector<Work> works;
  {
    const MutexLock lock(mutex_);
    works.swap(waiting_);
  }
  for (const Work& work : works) {
    try {
      work();
    } catch (const std::bad_alloc&) {  // this one is lost; those behind it are not
    }
  }
  if (!works.empty()) settle_();
  wanted_.Got();
}

void Inbox::Close() {
  std::vector<Work> works;  // destroyed without the lock: one may hold a Receipt, which posts
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    works.swap(waiting_);
  }
}

}  // namespace tutti::mqtt::listener
