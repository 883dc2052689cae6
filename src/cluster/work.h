// The state that WorkerPool keeps for each worker, request and question, and the errors of requests
// that end without a worker's reply. Included by the sources of WorkerPool only.
#pragma once

#include <tutti/v1/worker.pb.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/request_trace.h"
#include "base/status.h"
#include "cluster/placement.h"
#include "cluster/worker_pool.h"

namespace tutti::cluster {

// --- errors, for clients ---

inline Status WorkerLost() {
  return Unavailable("worker_lost", "the process that computed this ended; ask again");
}
inline Status WorkerUnreachable() {
  return Unavailable("worker_unreachable",
                     "there is no way any more to the process that computed this; ask again");
}
inline Status MismatchedReply() {
  return Unavailable("worker_lost", "the worker answered something else than was asked");
}
inline Status Quarantined() {
  return Status(StatusCode::kFailedPrecondition, "request_quarantined",
                "workers ended while they computed this request; it is refused for an hour");
}
inline Status CancelledByCaller() {
  return Status(StatusCode::kCancelled, "cancelled", "the caller cancelled the request");
}

// --- figures ---

// Adds a figure that a worker reported and that may be wrong: negative values count as 0, and the
// sum is limited so that the sum of two such sums cannot overflow.
template <typename Number>
Number SumOf(Number sum, Number more) {
  constexpr Number kMost = std::numeric_limits<Number>::max() / 4;
  const Number added = std::clamp(more, Number{0}, kMost);
  return std::min(sum, kMost - added) + added;
}

// --- state ---

// A worker, from its hello until its connection ends. Guarded by the pool's mutex, except for
// members that never change.
class WorkerPool::Worker {
 public:
  uint64_t name_hash = 0;
  std::string name, arithmetic;
  std::vector<api::ModelInfo> models;  // all that it may serve, with their latest status
  std::set<std::string> refused;       // ids of those whose files differ from another worker's
  int places = 0;
  // As the worker was started, and with all models that are loaded now.
  int base_num_seqs = 1, max_num_seqs = 1;
  int64_t memory_budget = 0;
  std::shared_ptr<Connection> connection;

  std::map<uint64_t, WorkRef> works;
  std::map<uint64_t, QuestionRef> questions;
  std::vector<std::shared_ptr<const v1::Call>> calls;  // not yet sent
  v1::FrontendMessage outbox;                          // everything except calls
  WorkRef trial;
  v1::Beat beat;
  TimePoint heard;
  bool draining = false, gone = false;

  // Null also for a model that is refused.
  const api::ModelInfo* Model(const std::string& id) const {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const api::ModelInfo& model) { return model.id == id; });
    return found == models.end() || refused.contains(id) ? nullptr : &*found;
  }
  void Add(const WorkRef& work);
  void Add(const QuestionRef& question);
  void Remove(const Work& work);
  void Remove(const Question& question);
  // Whether it has requests or questions for the model.
  bool Requested(const std::string& model) const { return requested_.contains(model); }
  // The models that it has or was asked for, except one that is not there yet.
  WorkerMemory Memory(const std::string& except = "") const;
  // What it takes to serve `model`, which is one of its models.
  Readiness ReadinessFor(const api::ModelInfo& model) const;

 private:
  // Requests and questions that the worker has, by model.
  std::map<std::string, int> requested_;
  void Release(const std::string& model);
};

// A generation or an encoding. The request never changes. The writer's members belong to the thread
// of its worker's connection; the other members are guarded by the pool's mutex.
struct WorkerPool::Work {
  uint64_t id = 0;
  std::string model;  // id
  std::shared_ptr<v1::Call> call;
  TimePoint deadline = TimePoint::max();
  uint64_t affinity = 0;
  bool repeats = false;  // any worker computes the same output: greedy, or with a seed
  std::shared_ptr<api::TokenStream> stream;      // of a generation
  std::shared_ptr<api::EncodingState> encoding;  // of an encoding
  std::shared_ptr<Waker> waker;
  std::shared_ptr<api::CacheReport> report;  // may be null
  std::shared_ptr<api::RequestTrace> trace;  // may be null

  // --- the writer's: first the thread that places the request, then that of its worker ---
  size_t delivered = 0, seen = 0, skip = 0;  // events: written; of this worker; to skip as repeated
  uint64_t written_hash = 0, seen_hash = 0;
  api::Usage usage;
  api::Timings timings;
  bool diverged = false;
  std::optional<Fingerprint> fingerprint;  // ComputeFingerprint()

  // --- guarded ---
  WorkerRef worker;                // null: the request waits for its trial
  std::string digest, arithmetic;  // required to continue elsewhere; empty: any
  int moves = 0;                   // moves away from silent workers
  bool sent = false, on_trial = false, cancelled = false, paused = false, over = false;

  // Called by the writer. Takes an update of the worker; sets `diverged` if repeated events differ.
  void Take(const v1::Update& update);
  void Finish(Status status);
  void BeginAnew();  // another worker computes the whole output again
  // Computes `fingerprint`, which identifies the request among suspects. Reads the whole request:
  // do not call with the pool's mutex held.
  void ComputeFingerprint();
};

// A call with one answer, such as tokenize. Guarded by the pool's mutex.
struct WorkerPool::Question {
  uint64_t id = 0;
  std::string model;  // id; empty: the question is for one worker alone
  std::shared_ptr<v1::Call> call;
  size_t bytes = 0;
  TimePoint deadline;
  Told told;  // called without the mutex
  WorkerRef worker;
  bool loads = false;  // it counts as one of loading_questions_
  bool moved = false;  // its first worker was lost; a question moves at most once
};

}  // namespace tutti::cluster
