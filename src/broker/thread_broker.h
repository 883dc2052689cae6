// ThreadBroker: the common part of brokers: the thread, its wake-up, the queue of unsent packets,
// and reconnecting. A subclass opens, reads and writes connections.
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
  std::string packet;
};

class ThreadBroker : public Broker {
 public:
  ThreadBroker();
  ~ThreadBroker() override;  // a derived class has called Stop() in its own
  ThreadBroker(const ThreadBroker&) = delete;
  ThreadBroker& operator=(const ThreadBroker&) = delete;

  Status Start(Mailboxes mailboxes, Reader* reader) final;
  void Stop() final;
  void Send(const std::string& mailbox, std::string packet) final;
  void Poke() noexcept final;

 protected:
  // Called on the broker's thread. Each wait lasts at most kPatience, and ends at Interrupt().
  virtual Status Connect(const Mailboxes& mailboxes) = 0;
  virtual void Disconnect() = 0;
  // Sends all `packets`; after an error it is unknown which of them were sent.
  virtual Status Write(std::span<const Outgoing> packets) = 0;
  // Reads packets that have arrived, without waiting; calls Deliver() for each.
  virtual Status Read() = 0;
  // Any thread: makes waits for the broker fail at once, until the next Connect().
  virtual void Interrupt() = 0;
  // Descriptors that become readable when Read() has work. At most two.
  virtual void Descriptors(std::pair<int, int>* descriptors) const = 0;

  void Deliver(std::string packet) { reader_->OnPacket(std::move(packet)); }

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
