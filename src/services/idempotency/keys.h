// IdempotencyKeys: idempotency keys of HTTP requests. A repeated request with the same key gets the
// stored answer of the first one.
//
// A key:
//             Ask(): the first request gets the Turn     Turn::Answer()
//   unknown ---------------------------------> computing -----------> stored
//      ^                                           |                     |
//      +-------------------------------------------+---------------------+
//        Turn::Decline(), and no request waits;      Expire(), or the limits
//
// Repeats wait while the answer is computed. After Decline() (the request was refused, or its
// client left) the request that has waited longest gets the Turn. A stream is not stored, and
// repeats are refused while it runs.
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

struct RequestIdentity {
  std::string tenant, method, path, key;
  std::string body_hash;  // as CanonicalBodyHash()
};

class IdempotencyKeys {
 public:
  struct Options {
    KeyLimits limits;
    size_t waiting = 64;                          // for one answer; more are refused
    int64_t unwritten_bytes = int64_t{64} << 20;  // of all answers that the disk does not have yet
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
    void Answer(StoredAnswer answer);
    // Ends the turn without an answer: the request that has waited longest gets the turn. The last
    // call on a turn.
    void Decline();
    // Marks the answer as a stream, which is not stored: requests that wait or arrive while it runs
    // are refused.
    void Streams();

   private:
    friend class IdempotencyKeys;
    Turn(IdempotencyKeys& keys, std::string id, RequestIdentity asked)
        : keys_(keys), id_(std::move(id)), asked_(std::move(asked)) {}
    IdempotencyKeys& keys_;
    const std::string id_;
    const RequestIdentity asked_;
    bool over_ = false;
  };

  // Exactly one of the two is set.
  struct Found {
    std::shared_ptr<Turn> turn;                // the caller computes the answer
    std::shared_ptr<const StoredAnswer> kept;  // the answer was computed before
  };
  using Done = std::function<void(Result<Found>)>;
  // Looks up a key and calls `done` once, now or later. If the store cannot be read, the request is
  // computed.
  // Errors: idempotency_key_mismatch (another body under this key), idempotency_in_progress (it
  // runs, and cannot be waited for).
  void Ask(RequestIdentity asked, Done done);

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
    RequestIdentity asked;
    Done done;
  };
  struct Running {
    std::string body_hash;
    bool streams = false;
    std::shared_ptr<const StoredAnswer> answer;  // not written yet
    std::vector<Waiting> waiting;                // the first has waited longest
  };

  void Look(std::string id, RequestIdentity asked, Done done);
  void Notify(const std::string& id, const Done& done, const Result<Found>& found);
  void Save(const std::string& id, const RequestIdentity& asked,
            const std::shared_ptr<const StoredAnswer>& answer);
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
