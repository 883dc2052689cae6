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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "store/database.h"
#include "store/store.h"

namespace tutti::idempotency {

// --- database rows of stored answers; all functions run on the store's thread, inside a
// Store::Work; their errors are the database's; times are unix milliseconds ---

extern const store::Migration kKeyTables;

// Limits on the stored answers of each tenant.
struct KeyLimits {
  int64_t rows = 10'000;                     // of a tenant; the oldest go first
  int64_t bytes = int64_t{64} << 20;         // of a tenant's heads and bodies; the oldest go first
  int64_t answer_bytes = int64_t{4} << 20;   // of one; a longer one is not stored
  int64_t ttl_ms = int64_t{24} * 3'600'000;  // after it was stored
};

struct StoredAnswer {
  int status = 200;
  std::string head;  // header fields, "name: value\n" each
  std::string body;

  int64_t bytes() const { return static_cast<int64_t>(head.size() + body.size()); }
};

struct KeyRow {
  std::string id;         // hash of tenant, method, path and key: 32 bytes
  std::string tenant;     // whose limits it counts against
  std::string body_hash;  // CanonicalBodyHash() of the request
  StoredAnswer answer;
};

// Returns nullopt if there is no answer, or it is too old.
Result<std::optional<KeyRow>> LoadAnswer(store::Database& database, const std::string& id,
                                         int64_t now_ms, const KeyLimits& limits);
// Inserts or replaces an answer, and deletes the tenant's oldest ones beyond the limits.
Status SaveAnswer(store::Database& database, const KeyRow& row, int64_t now_ms,
                  const KeyLimits& limits);
// Deletes at most `most` answers that are too old; returns their number.
Result<int64_t> ExpireAnswers(store::Database& database, int64_t now_ms, int64_t most,
                              const KeyLimits& limits);

// --- the keys ---

// Hash of a request body, to compare requests with the same idempotency key; for stored answers and
// for jobs. Any thread.
//
// SHA-256 (32 bytes) of the canonical form of a JSON body, or of the bytes of any other body. Long
// bodies take some tens of milliseconds.
std::string CanonicalBodyHash(std::string_view body);

// Compares the hash of the body that came first with a key and that of another request with this
// key. Errors: idempotency_key_mismatch.
Status CheckSameBody(std::string_view first_hash, std::string_view hash);

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
