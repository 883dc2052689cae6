// ExactCache: response cache for equal requests, which are computed once, also while the first one
// is still running. Implements api::AnswerCache.
//
// Made by app::Caches; shared by the gateway and the readers of its answers. Any thread; one lock,
// under which nothing is computed and nothing large is copied or freed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/answer_cache.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "services/cache/answer_key.h"
#include "services/cache/answer_store.h"
#include "services/cache/shared_answer.h"

namespace tutti::cache {

struct CacheStats {
  uint64_t hits = 0, misses = 0, joins = 0, bypasses = 0;  // requests
  size_t entries = 0, bytes = 0;                           // kept now
  size_t in_flight = 0;                                    // answers that may be joined
};

class ExactCache final : public api::AnswerCache,
                         public AnswerDesk,
                         public std::enable_shared_from_this<ExactCache> {
 public:
  // `clock` must outlive it. `tier`: cache shared with other servers; may be null. Must be owned by
  // a shared_ptr.
  ExactCache(const AnswerLimits& limits, const Clock& clock,
             std::shared_ptr<SharedCacheBackend> tier = nullptr);

  // api::AnswerCache
  std::shared_ptr<api::CachedAnswer> Open(api::GenerateRequest* request,
                                          std::shared_ptr<Waker> waker,
                                          std::shared_ptr<api::Cancellable> control) override;
  bool waits() const override { return tier_ != nullptr && tier_->asks(); }

  // Drops all answers of a tenant ("": requests without a tenant; nullopt: all). Running
  // computations are neither kept nor joined any more. Returns the number of answers dropped here.
  // Also flushes the tier, which may take a second, but not the memory of other servers.
  size_t Flush(std::optional<std::string_view> tenant);
  // Evicts half of the cache; called when memory is short.
  void Halve();
  CacheStats stats() const;

  // AnswerDesk
  Seat SeatFor(const api::RenderedRequest& rendered,
               const std::shared_ptr<api::Cancellable>& control,
               std::shared_ptr<api::RequestObserver>* observer,
               std::shared_ptr<const TierPlace> place) override;
  std::shared_ptr<const TierPlace> Fetch(const api::RenderedRequest& rendered) override;
  void Complete(const std::shared_ptr<SharedAnswer>& answer) override;
  void Forget(const SharedAnswer& answer) override;

 private:
  void ReportOutcome(const api::GenerateRequest& request, api::CacheOutcome outcome, Duration age);
  void RemoveFlight(const SharedAnswer& answer) REQUIRES(mutex_);

  const HashKey secret_ = DrawHashKey();
  const Clock& clock_;
  const std::shared_ptr<SharedCacheBackend> tier_;   // null: no shared cache
  std::array<std::atomic<uint64_t>, 5> outcomes_{};  // by api::CacheOutcome
  mutable Mutex mutex_;
  AnswerStore store_ GUARDED_BY(mutex_);
  // Running computations that may be joined, by SharedAnswer::flight().
  std::unordered_map<std::string, std::shared_ptr<SharedAnswer>> flights_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cache
