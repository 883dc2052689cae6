// SharedAnswer: one generation that several requests read, during and after its computation.
//
// It owns the log, a TokenStream that the engine writes and any number of cursors read. Its events
// are not freed while the answer exists. Back-pressure follows the fastest reader, never a slow
// one, because the log is kept anyway. The computation is cancelled when the last reader leaves.
//
// Shared by its readers, by the cache, and (the log only) by the engine. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/token_stream.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/cache/answer_key.h"
#include "services/cache/answer_store.h"
#include "services/cache/shared_cache_backend.h"

namespace tutti::cache {

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

}  // namespace tutti::cache
