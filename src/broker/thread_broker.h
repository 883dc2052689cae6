// ThreadBroker: what brokers have in common: the thread, its wake-up, what waits to be sent, and
// when to connect again. A kind of broker says how a connection is made, read and written.
#pragma once

#include <poll.h>

#include <atomic>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "broker/broker.h"

namespace tutti::broker {

struct Outgoing {
  std::string mailbox;
  std::string letter;
};

class ThreadBroker : public Broker {
 public:
  ThreadBroker();
  ~ThreadBroker() override;  // a derived class has called Stop() in its own
  ThreadBroker(const ThreadBroker&) = delete;
  ThreadBroker& operator=(const ThreadBroker&) = delete;

  Status Start(Mailboxes mailboxes, Reader* reader) final;
  void Stop() final;
  void Send(const std::string& mailbox, std::string letter) final;
  void Poke() noexcept final;

 protected:
  // All of the thread. What they wait for, each time kPatience at most, ends at Interrupt().
  virtual Status Connect(const Mailboxes& mailboxes) = 0;
  virtual void Disconnect() = 0;
  // All of `letters`, or an error: then which of them left is not known.
  virtual Status Write(std::span<const Outgoing> letters) = 0;
  // What has come, without waiting for more; Deliver() for each letter.
  virtual Status Read() = 0;
  // Any thread: what waits for the broker fails at once, until the next Connect().
  virtual void Interrupt() = 0;
  // Who becomes readable when there is something for Read(). At most two.
  virtual void Descriptors(std::pair<int, int>* descriptors) const = 0;

  void Deliver(std::string letter) { reader_->OnLetter(std::move(letter)); }

 private:
  void Main();
  Status Serve();
  Status Flush();
  void Wait(Duration longest, bool connected);
  bool stopping() const { return stop_.load(std::memory_order_acquire); }

  Mailboxes mailboxes_;
  Reader* reader_ = nullptr;
  const int event_;  // eventfd
  std::atomic<bool> stop_{false}, ended_{false};
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;
  bool connected_ = false;
  std::thread thread_;
};

}  // namespace tutti::broker
