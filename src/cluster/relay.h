// The worker's side of a frontend: its calls (Relay), and the state of the link (LinkState), for
// any transport.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "api/inference.h"
#include "api/model_control.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::cluster {

// Turns each call of a frontend into a request to the models of this process, and their output into
// messages.
//
// Receive() is called by the thread that receives messages, Next() by the one that sends them;
// Wake() and Drop() by any. Independent of sockets.
class Relay {
 public:
  struct Ports {  // all outlive the relay
    api::Inference* inference = nullptr;
    const api::HealthProbe* health = nullptr;
    const Clock* clock = nullptr;
    // Deletes kept answers and cached embeddings of a tenant, or of all (null); returns their
    // number.
    std::function<uint64_t(const std::string* tenant)> flush = {};
    // Loads and unloads the models; null: they are those of the start.
    api::ModelControl* control = nullptr;
    int64_t memory_budget = 0;  // bytes of the models together; 0: no limit
  };
  // Size at which a message is complete.
  static constexpr size_t kMessageBytes = 256 << 10;

  // `waker` is woken when Next() may have something, also by threads of the models, so it must meet
  // the requirements of Waker.
  Relay(Ports ports, std::shared_ptr<Waker> waker);
  ~Relay();

  void Receive(const v1::FrontendMessage& message);
  // Writes the changes since the last call; false: none. What does not fit is left for the next
  // call.
  bool Next(v1::WorkerMessage* message);
  // --- the thread of Next() ---

  // The first message to a frontend. Models that `hello` names are announced unchanged and for
  // good; if it names none, those of the process are, and FillBeat() announces their changes.
  v1::Hello Announce(const v1::Hello& hello);
  // The state of the models, and their list if it has changed, for the next message.
  void FillBeat(v1::WorkerMessage* message);
  // --- any thread ---

  // The frontend is gone: cancels and forgets its calls.
  void Drop();
  size_t calls() const;

 private:
  struct Call;
  class Replies;
  void Start(const v1::Call& call);
  // Null if the request was refused, with the reason in `refused`.
  std::shared_ptr<Call> StartRequest(const v1::Call& wire, v1::Update* refused);
  // Calls with one answer, at once or later, on any thread.
  void Answer(const v1::Call& call);
  Status Control(const v1::Call& call, const api::ModelControl::Done& done);
  v1::WireModelList ListModels() const;
  static size_t Read(Call& call, v1::Update* update);

  const Ports ports_;
  const std::shared_ptr<Waker> waker_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Call>> calls_ GUARDED_BY(mutex_);
  // Complete answers of calls that were refused or have one answer.
  const std::shared_ptr<Replies> replies_;
  // The models that the frontend knows, serialised; nothing if they are announced for good.
  std::optional<std::string> announced_;
};

// State shared by the thread of a worker's link and its owner. Any thread.
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
    BeatNow();
  }
  bool TakeBeatNow() { return beat_now_.exchange(false, std::memory_order_acq_rel); }
  // Makes the next heartbeat due now.
  void BeatNow() { beat_now_.store(true, std::memory_order_release); }
  void Beat(Relay& relay, v1::WorkerMessage* message) const {
    relay.FillBeat(message);
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
