// Relay: the worker's side of what a front asks: each call becomes a request to this process's
// models, and what they give becomes messages.
//
// Receive() belongs to the thread that brings messages in, Next() to the one that sends them;
// Wake() and Drop() are for any. No socket is known here.
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

namespace tutti::remote {

class Relay {
 public:
  struct Ports {  // all outlive the relay
    api::Inference* inference = nullptr;
    const api::HealthProbe* health = nullptr;
    const Clock* clock = nullptr;
    // Kept answers and rows of a tenant, or of all where there is none: how many went.
    std::function<uint64_t(const std::string* tenant)> flush = {};
  };
  // A message is closed when it holds that much.
  static constexpr size_t kMessageBytes = 256 << 10;

  // `waker` is told whenever Next() may have something: by the models' threads too, so it must be
  // what StreamWaker asks for.
  Relay(Ports ports, std::shared_ptr<api::StreamWaker> waker);
  ~Relay();

  void Receive(const v1::FrontMessage& message);
  // What is new since the last call; false: nothing. What does not fit stays for the next.
  bool Next(v1::WorkerMessage* message);
  // The state of the models, for the next message.
  void FillBeat(v1::Beat* beat) const;
  // The front is gone: what it asked is cancelled and forgotten.
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
  const std::shared_ptr<api::StreamWaker> waker_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Call>> calls_ GUARDED_BY(mutex_);
  // Whole answers of calls that were refused or answered at once.
  v1::WorkerMessage done_ GUARDED_BY(mutex_);
};

}  // namespace tutti::remote
