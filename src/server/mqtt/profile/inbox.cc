#include "server/mqtt/profile/inbox.h"

#include <utility>

namespace tutti::mqtt::profile {

struct Inbox::Letter {
  Message message;
  Receipt receipt;
};

void Inbox::Put(Message message, Receipt receipt, const Take& take) {
  const auto letter = std::make_shared<Letter>(Letter{std::move(message), std::move(receipt)});
  if (const Status status = Post(letter, take); !status.ok()) letter->receipt.Refuse(status);
}

// Posted under the lock, so that what is posted stands before Close().
Status Inbox::Post(const std::shared_ptr<Letter>& letter, const Take& take) {
  const size_t bytes = letter->message.payload.size();
  const MutexLock lock(mutex_);
  if (closed_) return Unavailable("draining", "the server takes no more messages");
  const bool fits = messages_ < limits_.messages && bytes_ + bytes <= limits_.bytes;
  if (!fits || !strand_->TryPost([self = shared_from_this(), letter, take, bytes] {
        self->Taken(bytes);
        take(letter->message, std::move(letter->receipt));
      })) {
    return Unavailable("overloaded", "more messages come than can be looked at");
  }
  ++messages_;
  bytes_ += bytes;
  return OkStatus();
}

void Inbox::Taken(size_t bytes) {
  const MutexLock lock(mutex_);
  --messages_;
  bytes_ -= bytes;
}

void Inbox::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

}  // namespace tutti::mqtt::profile
