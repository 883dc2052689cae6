// IoLoop: one I/O thread with its connections, their timers, and the waker of the streams that they
// read.
//
// The engine wakes the loop once per step, however many streams grow (one flag, one post). Timers
// are lazy: a connection asks for a call of OnTimer() no later than a time, and is then asked again
// for its due time.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/core_wanted.h"
#include "base/log.h"
#include "server/net/io_thread.h"

namespace tutti::http {

class Connection;

class IoLoop final : public Waker {
 public:
  IoLoop(const Clock& clock, Logger* log);

  // --- any thread ---
  void Start();
  void Stop();   // closes every connection, then joins
  void Sweep();  // after Stop(): runs late posts on the calling thread
  void Wake() noexcept override;
  boost::asio::io_context& context() { return thread_.context(); }

  // --- loop thread ---
  bool Add(std::shared_ptr<Connection> connection);  // false: stopping; it is not owned
  void Remove(Connection* connection);
  template <typename Visit>
  void ForEach(Visit visit) {
    const auto copy = connections_;  // a visit may remove
    for (const auto& connection : copy) visit(*connection);
  }
  // Calls `connection->Pump()` at every wake-up while `streaming`.
  void SetStreaming(Connection* connection, bool streaming);
  // Calls OnTimer() no later than `due`; keeps the earliest time.
  void Schedule(Connection* connection, TimePoint due);
  std::string RandomId(size_t length);  // [a-z0-9]
  const Clock& clock() const { return clock_; }

 private:
  void PumpAll();
  void ArmTimer();
  void OnTimer();

  const Clock& clock_;
  sockets::IoThread thread_;
  std::atomic<bool> woken_{false};
  CoreWanted wanted_;
  // loop thread
  std::set<std::shared_ptr<Connection>> connections_;
  bool stopping_ = false;
  std::unordered_set<Connection*> streaming_;
  std::set<std::pair<TimePoint, Connection*>> timers_;
  boost::asio::steady_timer timer_;
  TimePoint armed_for_ = TimePoint::max();
  std::mt19937_64 random_;
};

}  // namespace tutti::http
