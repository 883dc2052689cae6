// IdempotencyKeys: idempotency keys of HTTP requests. A repeated request with the same key gets the
// stored answer of the first one.
//
// The first request with a key gets the Turn and is computed; repeats that arrive meanwhile wait
// for its answer, which is stored. If the turn ends without an answer (the request was refused, the
// client left, or the answer is a stream), the request that has waited longest gets the turn; if
// none waits, the key is forgotten.
//
// Thread-safe; no call blocks. `done` is called without a lock on the thread that has the outcome,
// and must not block. The store must outlive the IdempotencyKeys, and the IdempotencyKeys its
// turns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "services/idempotency/key_rows.h"
#include "store/store.h"

namespace tutti::idempotency {

// Identity of a repeatable request.
struct Asked {
  std::string tenant, method, path, key;
  std::string print;  // of its body: 32 bytes
};

class IdempotencyKeys {
 public:
  struct Options {
    KeyLimits limits;
    size_t waiting = 64;                          // for one answer; more are refused
    int64_t unwritten_bytes = int64_t{64} << 20;  // of all answers on their way to the disk
  };
  // `unix_ms`: the wall clock.
  IdempotencyKeys(const Options& options, store::Store& store, std::function<int64_t()> unix_ms);
  ~IdempotencyKeys();  // waits for what was handed to the store
  IdempotencyKeys(const IdempotencyKeys&) = delete;
  IdempotencyKeys& operator=(const IdempotencyKeys&) = delete;

  // The right to compute the answer for a key. Destroying it without an answer passes it on. Any
  // thread, one at a time.
  class Turn {
   public:
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Stores the complete answer and gives it to all waiting requests. The last call on a turn.
    void Answer(KeptAnswer answer);
    // Ends the turn without an answer: the request that has waited longest gets the turn. The last
    // call on a turn.
    void Decline();
    // Marks the answer as a stream, which is not stored: requests that wait or arrive while it runs
    // are refused.
    void Streams();

   private:
    friend class IdempotencyKeys;
    Turn(IdempotencyKeys& keys, std::string id, Asked asked)
        : keys_(keys), id_(std::move(id)), asked_(std::move(asked)) {}
    IdempotencyKeys& keys_;
    const std::string id_;
    const Asked asked_;
    bool over_ = false;
  };

  // Exactly one of the two is set.
  struct Found {
    std::shared_ptr<Turn> turn;              // to be computed
    std::shared_ptr<const KeptAnswer> kept;  // was computed before
  };
  using Done = std::function<void(Result<Found>)>;
  // Looks up a key and calls `done` once, now or later. If the store cannot be read, the request is
  // computed.
  // Errors: idempotency_key_mismatch (another body under this key), idempotency_in_progress (it
  // runs, and cannot be waited for).
  void Ask(Asked asked, Done done);

  // Deletes some of the answers that are too old; called periodically.
  void Expire();

  const KeyLimits& limits() const { return options_.limits; }
  // Counts of stored and not stored answers; for tests and metrics.
  struct Counts {
    uint64_t kept = 0, unkept = 0;  // answers: written, and not (too long, or the store's refusal)
  };
  Counts counts() const;

 private:
  struct Waiting {
    Asked asked;
    Done done;
  };
  struct Running {
    std::string print;
    bool streams = false;
    std::shared_ptr<const KeptAnswer> answer;  // not written yet
    std::vector<Waiting> waiting;              // the first has waited longest
  };

  void Look(std::string id, Asked asked, Done done);
  void Tell(const std::string& id, const Done& done, const Result<Found>& found);
  void Save(const std::string& id, const Asked& asked,
            const std::shared_ptr<const KeptAnswer>& answer);
  void PassOn(const std::string& id);
  std::vector<Waiting> TakeWaiting(const std::string& id, bool ends);

  const Options options_;
  store::Store& store_;
  const std::function<int64_t()> unix_ms_;
  mutable Mutex mutex_;
  std::map<std::string, Running> running_ GUARDED_BY(mutex_);  // by id
  int64_t unwritten_bytes_ GUARDED_BY(mutex_) = 0;
  Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace tutti::idempotency
