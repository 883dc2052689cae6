// FakeBroker: a broker in this process, for tests of code that uses one. It loses and doubles
// packets, goes down, and forgets. Any thread.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "broker/thread_broker.h"

namespace tutti::broker::testing {

class FakeBroker {
 public:
  // Its ends must have been destroyed before it.
  std::unique_ptr<Broker> MakeBroker() { return std::make_unique<End>(*this); }

  // Per cent of all packets.
  void SetFaults(int lost, int doubled) {
    const MutexLock lock(mutex_);
    lost_ = lost;
    doubled_ = doubled;
  }
  // Ends all connections, drops all packets, and refuses connections.
  void GoDown() {
    const MutexLock lock(mutex_);
    up_ = false;
    boxes_.clear();
    for (End* end : ends_) end->Poke();
  }
  void ComeBack() {
    const MutexLock lock(mutex_);
    up_ = true;
  }
  void Put(const std::string& mailbox, const std::string& packet) {
    const MutexLock lock(mutex_);
    PutLocked(mailbox, packet);
  }
  int packets() const {
    const MutexLock lock(mutex_);
    return packets_;
  }

 private:
  class End final : public ThreadBroker {
   public:
    explicit End(FakeBroker& fake) : fake_(fake) {
      const MutexLock lock(fake_.mutex_);
      fake_.ends_.push_back(this);
    }
    ~End() override {
      Stop();
      const MutexLock lock(fake_.mutex_);
      std::erase(fake_.ends_, this);
    }

   private:
    Status Up() const REQUIRES(fake_.mutex_) {
      return fake_.up_ ? OkStatus() : Unavailable("broker_lost", "the broker is down");
    }
    Status Connect(const Mailboxes& mailboxes) override {
      mailboxes_ = mailboxes;
      const MutexLock lock(fake_.mutex_);
      return Up();
    }
    void Disconnect() override {}
    Status Write(std::span<const Outgoing> packets) override {
      const MutexLock lock(fake_.mutex_);
      RETURN_IF_ERROR(Up());
      for (const Outgoing& each : packets) {
        if (fake_.Chance(fake_.lost_)) continue;
        fake_.PutLocked(each.mailbox, each.packet);
        if (fake_.Chance(fake_.doubled_)) fake_.PutLocked(each.mailbox, each.packet);
      }
      return OkStatus();
    }
    Status Read() override {
      std::deque<std::string> packets;
      {
        const MutexLock lock(fake_.mutex_);
        RETURN_IF_ERROR(Up());
        packets.swap(fake_.boxes_[mailboxes_.own]);
        if (!mailboxes_.shared.empty()) {
          std::deque<std::string>& shared = fake_.boxes_[mailboxes_.shared];
          if (!shared.empty()) {
            packets.push_back(std::move(shared.front()));
            shared.pop_front();
          }
        }
      }
      for (std::string& packet : packets) Deliver(std::move(packet));
      return OkStatus();
    }
    void Interrupt() override {}
    void Descriptors(std::pair<int, int>*) const override {}

    FakeBroker& fake_;
    Mailboxes mailboxes_;
  };

  bool Chance(int percent) REQUIRES(mutex_) {
    return random_() % 100 < static_cast<uint64_t>(percent);
  }
  void PutLocked(const std::string& mailbox, const std::string& packet) REQUIRES(mutex_) {
    ++packets_;
    boxes_[mailbox].push_back(packet);
    for (End* end : ends_) end->Poke();
  }

  mutable Mutex mutex_;
  std::mt19937_64 random_ GUARDED_BY(mutex_){7};
  bool up_ GUARDED_BY(mutex_) = true;
  int lost_ GUARDED_BY(mutex_) = 0, doubled_ GUARDED_BY(mutex_) = 0;
  int packets_ GUARDED_BY(mutex_) = 0;
  std::vector<End*> ends_ GUARDED_BY(mutex_);
  std::map<std::string, std::deque<std::string>> boxes_ GUARDED_BY(mutex_);
};

}  // namespace tutti::broker::testing
