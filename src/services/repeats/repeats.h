// Repeats: requests that bear a key by which they may be sent again without being computed again.
//
// The first of its key has the turn: it is computed, and who sends it again meanwhile waits for it.
// Its answer is kept in the store; a turn that ends without one, because it was refused, its client
// left or the answer is a stream, goes to who has waited longest, or is forgotten.
//
// Thread-safe; nothing waits. A `done` is called on whatever thread has its outcome, under no lock,
// and must not wait. The store must outlive this, and this its turns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "services/repeats/repeat_rows.h"
#include "store/store.h"

namespace tutti::repeats {

// What a request is known by.
struct Asked {
  std::string tenant, method, path, key;
  std::string print;  // of its body: 32 bytes
};

class Repeats {
 public:
  struct Options {
    RepeatLimits limits;
    size_t waiting = 64;                          // for one answer; more are refused
    int64_t unwritten_bytes = int64_t{64} << 20;  // of all answers on their way to the disk
  };
  // `unix_ms`: the wall clock.
  Repeats(const Options& options, store::Store& store, std::function<int64_t()> unix_ms);
  ~Repeats();  // waits for what was handed to the store
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;

  // The right to compute an answer. Destroyed without one it passes on. Any thread, one at a time.
  class Turn {
   public:
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // It is complete: who waits has it, and the store gets it. At most once, the last.
    void Answer(KeptAnswer answer);
    // There is no answer to keep: the request that has waited longest gets the turn. At most once,
    // the last.
    void Decline();
    // It is told bit by bit, and not kept: who waits, or comes while it runs, is refused.
    void Streams();

   private:
    friend class Repeats;
    Turn(Repeats& repeats, std::string id, Asked asked)
        : repeats_(repeats), id_(std::move(id)), asked_(std::move(asked)) {}
    Repeats& repeats_;
    const std::string id_;
    const Asked asked_;
    bool over_ = false;
  };

  // One of both.
  struct Found {
    std::shared_ptr<Turn> turn;              // to be computed
    std::shared_ptr<const KeptAnswer> kept;  // was computed before
  };
  using Done = std::function<void(Result<Found>)>;
  // Calls `done` once, now or when it is known. Where the store cannot be read it is computed.
  // Errors: idempotency_key_mismatch (another body under this key), idempotency_in_progress (it
  // runs, and cannot be waited for).
  void Ask(Asked asked, Done done);

  // Lets go of what is too old, some at a time. To be called now and then.
  void Expire();

  const RepeatLimits& limits() const { return options_.limits; }
  // Of the store's part; for tests and metrics.
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

}  // namespace tutti::repeats
