// SharedAnswer: one generation that several requests read. AnswerReader: one of these requests.
// Interfaces of those that keep the answers: AnswerDesk, a server's own cache; SharedCacheBackend,
// a cache that several servers share. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_cache.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/cache/answer_key.h"
#include "services/cache/answer_store.h"

namespace tutti::cache {

class SharedAnswer;

// Where a computed answer will be stored, as determined at its lookup: if the tier is flushed
// during the computation, the old era makes the stored answer unreadable. Immutable.
struct TierPlace {
  std::string tenant;
  std::string key;    // of the tier
  std::string words;  // all that can change the answer (answer_key.h)
  std::string era;    // random; replaced by each flush
};

// SharedCacheBackend: interface of a response cache that several servers share; RedisTier
// implements it.
//
// Any thread.
class SharedCacheBackend {
 public:
  virtual ~SharedCacheBackend() = default;
  // Whether Look() would query the shared cache now, and so may block.
  virtual bool asks() const = 0;

  struct Found {
    std::vector<api::StreamEvent> events;  // of a whole answer; the last is kEnd
    Duration age{0};
  };
  struct Looked {
    std::optional<Found> found;
    std::shared_ptr<const TierPlace> place;  // null: do not store the computed answer
  };
  // Looks up the answer of an equal request, unless the request disables caching. Blocks for at
  // most 5 ms.
  virtual Looked Look(const api::RenderedRequest& rendered) = 0;
  // Queues a complete answer, whose place is not null, for storage; may drop it. Does not block.
  virtual void Keep(std::shared_ptr<const SharedAnswer> answer) = 0;
  // Invalidates the answers of a tenant, or of all tenants (nullopt), for this server at once.
  // Blocks for at most a second; if Redis cannot be reached by then, it is updated later.
  virtual void Flush(std::optional<std::string_view> tenant) = 0;
};

// One generation that several requests read, during and after its computation.
//
// It owns the log, a TokenStream that the engine writes and any number of cursors read. Its events
// are not freed while the answer exists. Back-pressure follows the fastest reader, never a slow
// one, because the log is kept anyway. The computation is cancelled when the last reader leaves.
//
// Shared by its readers, by the cache, and (the log only) by the engine. Any thread.
class SharedAnswer final : public Kept {
 public:
  // `control` cancels the computation; `observer` observes it (may be null). The first reader is
  // already counted.
  SharedAnswer(AnswerKey key, std::string flight, std::string tenant, uint64_t era,
               std::shared_ptr<api::Cancellable> control,
               std::shared_ptr<api::RequestObserver> observer,
               std::shared_ptr<const TierPlace> place = nullptr);
  // Makes a complete answer from the events of SharedCacheBackend::Found.
  static std::shared_ptr<SharedAnswer> Whole(AnswerKey key, std::string tenant, uint64_t era,
                                             std::vector<api::StreamEvent> events);

  const AnswerKey& key() const override { return key_; }
  const std::string& flight() const { return flight_; }  // "" : not shared
  const std::string& tenant() const override { return tenant_; }
  uint64_t era() const { return era_; }  // of the cache, when it was begun
  // True for the first call after the answer is complete; that caller stores it.
  bool TakeForKeeping();
  const std::shared_ptr<api::TokenStream>& log() const { return log_; }
  const std::shared_ptr<api::Cancellable>& control() const { return control_; }
  // Where the answer will be stored in the shared tier; null: not there.
  const std::shared_ptr<const TierPlace>& place() const { return place_; }

  // Adds a reader; false if all readers have left.
  bool Join();
  // Removes a reader; true if it was the last, after which no reader can join.
  bool Leave();
  // Registers a waker for growth of the log; called on the writer's thread.
  void Watch(const std::shared_ptr<Waker>& waker);
  void Unwatch(const std::shared_ptr<Waker>& waker);

  // Reports that a reader has read `events` events of the log, the last of which is `event`.
  void HaveRead(size_t events, const api::StreamEvent& event);
  // Memory of the answer; valid after a reader has read it to the end.
  size_t bytes() const override;

  // Ends the answer with an error for all readers, because nothing will be computed.
  void Fail(const Status& status);
  std::optional<Status> failure() const;

 private:
  class Wakers;

  const AnswerKey key_;
  const std::string flight_, tenant_;
  const uint64_t era_;
  const std::shared_ptr<api::Cancellable> control_;
  const std::shared_ptr<const TierPlace> place_;
  const std::shared_ptr<Wakers> wakers_;  // the log's
  const std::shared_ptr<api::TokenStream> log_;
  mutable Mutex mutex_;
  bool taken_ GUARDED_BY(mutex_) = false;
  size_t readers_ GUARDED_BY(mutex_) = 1;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  size_t furthest_ GUARDED_BY(mutex_) = 0;  // events that any reader has read
  size_t read_bytes_ GUARDED_BY(mutex_) = 0;
  std::optional<Status> failure_ GUARDED_BY(mutex_);
};

// Interface of the cache for its readers; ExactCache implements it.
class AnswerDesk {
 public:
  virtual ~AnswerDesk() = default;
  struct Seat {
    std::shared_ptr<const SharedAnswer> kept = {};  // whole; or
    std::shared_ptr<SharedAnswer> shared = {};      // being computed
    bool leads = false;                             // by this request
  };
  // Looks up the shared tier; called before SeatFor(), without a lock. A found answer is added to
  // this cache. Otherwise returns where to store the computed answer (may be null). May block if
  // RenderedRequest::may_wait is set.
  virtual std::shared_ptr<const TierPlace> Fetch(const api::RenderedRequest& rendered) = 0;
  // Finds a cached or running answer, or makes a new one that this request leads; a new one takes
  // `observer`.
  virtual Seat SeatFor(const api::RenderedRequest& rendered,
                       const std::shared_ptr<api::Cancellable>& control,
                       std::shared_ptr<api::RequestObserver>* observer,
                       std::shared_ptr<const TierPlace> place) = 0;
  // Called by each reader that has read the whole answer.
  virtual void Complete(const std::shared_ptr<SharedAnswer>& answer) = 0;
  // No further request may join this answer.
  virtual void Forget(const SharedAnswer& answer) = 0;
};

// AnswerReader: one request's view of a SharedAnswer. The reader itself writes its stream: when the
// Generation has read all events, it copies a few more from the shared log.
//
// Shared by the gateway, until the prompt is prepared, and the request's Generation. Any thread.
class AnswerReader final : public api::CachedAnswer {
 public:
  // `control` cancels the request's own computation.
  AnswerReader(std::shared_ptr<AnswerDesk> desk, std::shared_ptr<Waker> waker,
               std::shared_ptr<api::Cancellable> control,
               std::shared_ptr<api::RequestObserver> observer);

  const std::shared_ptr<api::TokenStream>& stream() const override { return stream_; }
  std::shared_ptr<api::TokenStream> Resolve(const api::RenderedRequest& rendered) override;
  void Refuse(Status status, const api::Usage& usage) override;
  void Withdraw(const Status& status) override;
  bool Fill(size_t read) override;
  void Cancel() noexcept override;

 private:
  enum class State { kPreparing, kReading, kEnded };
  const SharedAnswer& answer() const REQUIRES(mutex_) {
    return seat_.kept != nullptr ? *seat_.kept : *seat_.shared;
  }
  void Copy(const api::StreamEvent& event) REQUIRES(mutex_);
  void End(Status status, api::Usage usage, const api::Timings& timings) REQUIRES(mutex_);
  // Leaves the answer. Returns the computation to cancel if this was the last reader of an
  // unfinished answer, else null.
  std::shared_ptr<api::Cancellable> Leave() REQUIRES(mutex_);

  const std::shared_ptr<AnswerDesk> desk_;
  const std::shared_ptr<api::Cancellable> control_;
  const std::shared_ptr<api::TokenStream> stream_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kPreparing;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool has_token_ GUARDED_BY(mutex_) = false;
  AnswerDesk::Seat seat_ GUARDED_BY(mutex_);
  api::TokenStream::Cursor cursor_ GUARDED_BY(mutex_);
  api::Usage usage_ GUARDED_BY(mutex_);  // so far
  // Null if this request leads: its observer then belongs to the shared log, which the engine
  // writes.
  std::shared_ptr<api::RequestObserver> observer_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cache
