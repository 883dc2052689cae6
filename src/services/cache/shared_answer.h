// SharedAnswer: one generation that several requests read, while it is computed and after.
//
// It owns the log: a TokenStream that the engine writes and that nobody frees, read by any number
// of cursors. The engine is held back by the reader that is furthest ahead, never by one that is
// behind: what a slow reader has not read costs nothing but the log, which is kept anyway. The
// computation is cancelled when the last reader leaves.
//
// Shared by its readers, by the cache, and (the log alone) by the engine. Any thread.
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
#include "services/cache/answer_tier.h"

namespace tutti::cache {

class SharedAnswer final : public Kept {
 public:
  // `control` cancels the computation, whose observer `observer` is (may be null). The first reader
  // is entered.
  SharedAnswer(AnswerKey key, std::string flight, std::string tenant, uint64_t era,
               std::shared_ptr<api::Cancellable> control,
               std::shared_ptr<api::RequestObserver> observer,
               std::shared_ptr<const TierPlace> place = nullptr);
  // One that was computed elsewhere: whole, and read. `events` as AnswerTier::Found's.
  static std::shared_ptr<SharedAnswer> Whole(AnswerKey key, std::string tenant, uint64_t era,
                                             std::vector<api::StreamEvent> events);

  const AnswerKey& key() const override { return key_; }
  const std::string& flight() const { return flight_; }  // "" : nobody may join
  const std::string& tenant() const override { return tenant_; }
  uint64_t era() const { return era_; }  // of the cache, when it was begun
  // Whether it is whole and nobody asked before: true once at most.
  bool TakeForKeeping();
  const std::shared_ptr<api::TokenStream>& log() const { return log_; }
  const std::shared_ptr<api::Cancellable>& control() const { return control_; }
  // Where it will be kept for other servers too; null: nowhere.
  const std::shared_ptr<const TierPlace>& place() const { return place_; }

  // One reader more; false where all had left.
  bool Join();
  // One reader less; true where it was the last: from then on nobody joins.
  bool Leave();
  // Told when the log grows, from its writer's thread.
  void Watch(const std::shared_ptr<api::StreamWaker>& waker);
  void Unwatch(const std::shared_ptr<api::StreamWaker>& waker);

  // Some reader has read so many events of the log, the last of which is `event`.
  void HaveRead(size_t events, const api::StreamEvent& event);
  // What the answer takes in memory, once it has been read to its end.
  size_t bytes() const override;

  // Nothing will be written; those who read are told so.
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
