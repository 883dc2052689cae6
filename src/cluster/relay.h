// Relay: the worker's side of calls from a frontend: turns each call into a request to the models
// of this process, and their output into messages.
//
// Receive() is called by the thread that receives messages, Next() by the one that sends them;
// Wake() and Drop() by any. Independent of sockets.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::cluster {

class Relay {
 public:
  struct Ports {  // all outlive the relay
    api::Inference* inference = nullptr;
    const api::HealthProbe* health = nullptr;
    const Clock* clock = nullptr;
    // Deletes kept answers and cached embeddings of a tenant, or of all (null); returns their
    // number.
    std::function<uint64_t(const std::string* tenant)> flush = {};
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
  // The state of the models, for the next message.
  void FillBeat(v1::Beat* beat) const;
  // The frontend is gone: cancels and forgets its calls.
  void Drop();
  size_t calls() const;

 private:
  struct Call;
  void Start(const v1::Call& call);
  std::shared_ptr<Call> StartGenerate(const v1::WireGenerate& wire, v1::Update* refused);
  std::shared_ptr<Call> StartEncode(const v1::WireEncode& wire, v1::Update* refused);
  void AnswerAtOnce(const v1::Call& call, v1::Update* update);
  static size_t Read(Call& call, v1::Update* update);

  const Ports ports_;
  const std::shared_ptr<Waker> waker_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Call>> calls_ GUARDED_BY(mutex_);
  // Complete answers of calls that were refused or answered at once.
  v1::WorkerMessage done_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cluster
