// LinkState: state shared by the thread of a worker's link and its owner. Any thread.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "cluster/relay.h"

namespace tutti::cluster {

class LinkState {
 public:
  // Delay before a frontend that refused this worker is tried again.
  static constexpr Duration kRefusedWait = std::chrono::seconds(5);

  bool attached() const { return attached_.load(std::memory_order_acquire); }
  void set_attached(bool attached) { attached_.store(attached, std::memory_order_release); }
  // The frontend has announced that no new calls come.
  void NoMore() { no_more_.store(true, std::memory_order_release); }

  // Makes the next heartbeat due now; it announces that this worker leaves.
  void BeginDrain() {
    draining_.store(true, std::memory_order_release);
    beat_now_.store(true, std::memory_order_release);
  }
  bool TakeBeatNow() { return beat_now_.exchange(false, std::memory_order_acq_rel); }
  void Beat(const Relay& relay, v1::WorkerMessage* message) const {
    relay.FillBeat(message->mutable_beat());
    message->mutable_beat()->set_draining(draining_.load(std::memory_order_acquire));
  }
  // Waits until the frontend sends no new calls and `done` returns true, or the frontend is gone,
  // or `limit` has passed. Returns whether everything is done.
  bool AwaitDrained(const Clock& clock, Duration limit, const std::function<bool()>& done) const {
    const TimePoint deadline = clock.Now() + limit;
    while (attached() && clock.Now() < deadline) {
      if (no_more_.load(std::memory_order_acquire) && done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return done();
  }

 private:
  std::atomic<bool> attached_{false}, draining_{false}, beat_now_{false}, no_more_{false};
};

}  // namespace tutti::cluster
