// What the pool keeps of a worker and of what it was asked. The inside of WorkerPool.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "remote/worker_pool.h"

namespace tutti::remote {

// One that has said hello, until its connection ends. Guarded by the pool's mutex, but for what
// never changes.
class WorkerPool::Worker {
 public:
  uint64_t name_hash = 0;
  std::string name, arithmetic;
  std::vector<api::ModelInfo> models;
  int places = 0, lanes = 1;
  std::shared_ptr<Connection> connection;

  std::map<uint64_t, WorkRef> works;
  std::map<uint64_t, QuestionRef> questions;
  std::vector<std::shared_ptr<const v1::Call>> calls;  // not yet sent
  v1::FrontMessage outbox;                             // all but calls
  WorkRef trial;
  v1::Beat beat;
  TimePoint heard;
  bool draining = false, gone = false;

  const api::ModelInfo* Model(const std::string& id) const {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const api::ModelInfo& model) { return model.id == id; });
    return found == models.end() ? nullptr : &*found;
  }
};

// A generation or an encoding. What it asks never changes; the writer's part belongs to the thread
// of its worker, the rest is guarded by the pool's mutex.
struct WorkerPool::Work {
  uint64_t id = 0;
  std::string model;  // id
  std::shared_ptr<v1::Call> call;
  TimePoint deadline = TimePoint::max();
  uint64_t affinity = 0;
  bool repeats = false;  // the same again, wherever it is computed: greedy, or with a seed
  std::shared_ptr<api::TokenStream> stream;      // of a generation
  std::shared_ptr<api::EncodingState> encoding;  // of an encoding
  std::shared_ptr<api::StreamWaker> waker;
  std::shared_ptr<api::CacheReport> report;  // may be null

  // --- the writer's; whoever places it for the first time is the first ---
  size_t delivered = 0, seen = 0, skip = 0;  // events: written; of this worker; not to be repeated
  uint64_t written_hash = 0, seen_hash = 0;
  api::Usage usage;
  api::Timings timings;
  bool diverged = false;
  std::optional<Fingerprint> print;  // TakePrint()

  // --- guarded ---
  WorkerRef worker;                // null: it waits for its trial
  std::string digest, arithmetic;  // that a worker must have to go on with it; empty: any
  int moves = 0;                   // away from silent workers
  bool sent = false, on_trial = false, cancelled = false, paused = false, over = false;

  // The writer's. Takes what the worker says of it; it may have diverged then.
  void Take(const v1::Update& update);
  void Finish(Status status);
  void BeginAnew();  // another worker says all of it again
  // By which it is known among suspects. It reads the whole request: never with the pool's mutex.
  void TakePrint();
};

// A call that is answered at once, in one piece. Guarded by the pool's mutex.
struct WorkerPool::Question {
  uint64_t id = 0;
  std::string model;  // id; empty: it is for one worker alone
  std::shared_ptr<v1::Call> call;
  size_t bytes = 0;
  TimePoint deadline;
  Told told;  // called without the mutex
  WorkerRef worker;
  bool moved = false;  // its first worker was lost
};

}  // namespace tutti::remote
