// IoLoop: one io thread, the connections it owns, their timers, and the waker of the streams they
// read.
//
// However many of its streams grow in a step, the engine wakes the loop once (one flag, one post).
// Timers are lazy: a connection asks to be looked at no later than some time, and is asked again
// what it waits for.
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
#include "doors/sockets/io_thread.h"

namespace tutti::http {

class Connection;

class IoLoop final : public api::StreamWaker {
 public:
  IoLoop(const Clock& clock, Logger* log);

  // --- any thread ---
  void Start();
  void Stop();   // closes every connection, then joins
  void Sweep();  // after Stop(): runs what was posted too late, on the calling thread
  void Wake() noexcept override;
  boost::asio::io_context& context() { return thread_.context(); }

  // --- loop thread ---
  bool Add(std::shared_ptr<Connection> connection);  // false when stopping: it is not taken
  void Remove(Connection* connection);
  template <typename Visit>
  void ForEach(Visit visit) {
    const auto copy = connections_;  // a visit may remove
    for (const auto& connection : copy) visit(*connection);
  }
  // `connection` reads streams: Pump() it at every wake until told otherwise.
  void SetStreaming(Connection* connection, bool streaming);
  // OnTimer() no later than `due`. Keeps the earliest.
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
