// Inbox: passes messages of clients from the port's thread to the strand. Bounded in messages and
// bytes; a message beyond the limits is refused, so that its publisher tries again.
//
// Any thread; never blocks. After Close() has returned, no message reaches the strand.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "base/strand.h"
#include "mqtt/message_port.h"

namespace tutti::mqtt::profile {

class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  struct Limits {
    size_t messages = 1000;
    size_t bytes = 16 << 20;
  };
  Inbox(const Limits& limits, std::shared_ptr<Strand> strand)
      : limits_(limits), strand_(std::move(strand)) {}

  using Take = std::function<void(const Message& message, Receipt receipt)>;
  // Calls `take` on the strand, in the order of arrival.
  void Put(Message message, Receipt receipt, const Take& take);
  void Close();

 private:
  struct Letter;
  Status Post(const std::shared_ptr<Letter>& letter, const Take& take);
  void Taken(size_t bytes);

  const Limits limits_;
  const std::shared_ptr<Strand> strand_;
  Mutex mutex_;
  size_t messages_ GUARDED_BY(mutex_) = 0;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::mqtt::profile
